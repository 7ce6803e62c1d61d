"""What commands print, on a terminal and for programs."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click
from rich.console import Console
from rich.text import Text

# Wide enough for any line: what is no terminal has no width, and programs read whole lines.
_WIDE = 10_000
out = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


def printing_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--json`, and print what it returns as JSON when it is used."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(command)
    def wrapped(*args: Any, as_json: bool, **options: Any) -> None:
        result, told = command(*args, **options)
        if as_json:
            click.echo(json.dumps(result, indent=2))
        else:
            # Words stay whole, however narrow the terminal is: they will be copied.
            out.print(told, soft_wrap=isinstance(told, str | Text))

    return wrapped


@contextmanager
def silence() -> Iterator[None]:
    """Keep the log out of what is on the terminal: a line that is being typed, a full screen."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def cell(value: Any) -> str:
    """Return a value as tables show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def shown_time(seconds: float | None) -> str | None:
    """Return a time in seconds since 1970 as ISO 8601 has it."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
