"""Output of commands, as text or JSON."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from skipmq.telemetry.terminal import visible

# Programs read whole lines, so output that is not to a terminal is never wrapped.
_UNWRAPPED = 10_000


class _Visible(Console):
    """A console for text of others, of which nothing reaches the terminal that controls it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object; what rich itself writes to control the terminal stays."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=visible(part.text))


out = _Visible(highlight=False, width=None if sys.stdout.isatty() else _UNWRAPPED)
err = _Visible(highlight=False, stderr=True)


def printing_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--json` to a command that returns a result for JSON and a text or table."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(command)
    def wrapped(*args: Any, as_json: bool, **options: Any) -> None:
        result, text = command(*args, **options)
        if as_json:
            click.echo(json.dumps(result, indent=2))
        else:
            # Soft wrapping keeps words whole, so that they can be copied.
            out.print(text, soft_wrap=isinstance(text, str | Text))

    return wrapped


@contextmanager
def silence() -> Iterator[None]:
    """Discard standard error in the block, so that logs do not disturb the terminal."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def cell(value: Any) -> str:
    """Format a value for a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def shown_time(seconds: float | None) -> str | None:
    """Format a time in seconds since 1970 in ISO 8601."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
