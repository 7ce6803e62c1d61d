"""Output of commands, as text or JSON."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from skipmq.protocol.queue_attributes import DOCUMENTS
from skipmq.telemetry.terminal import visible

# Programs read whole lines, so output that is not to a terminal is never wrapped.
_UNWRAPPED = 10_000


# Maps whose keys the user chose.
_USERS = {"MessageAttributes", "Tags"}
# Texts of SQS that are numbers or booleans.
_NUMBER = re.compile(
    "Approximate.+|.+Timestamp|.+Seconds|.+Period|VisibilityTimeout|MaximumMessageSize"
)
_BOOLEANS = {"FifoQueue", "ContentBasedDeduplication", "SqsManagedSseEnabled"}
_BOUNDARY = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _Visible(Console):
    """A console for text of others, of which nothing reaches the terminal that controls it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object; what rich itself writes to control the terminal stays."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=visible(part.text))


yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
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


def ask(question: str) -> None:
    """Ask a question; raise click.ClickException unless the answer is yes."""
    try:
        agreed = click.confirm(visible(question))
    except click.Abort:  # Also the end of standard input.
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise click.ClickException("nothing was deleted; --yes answers the question")


def plain(answer: Any) -> Any:
    """Return an answer with keys in snake_case; documents are objects, which keep their own."""
    if isinstance(answer, Mapping):
        return {snake(key): _member(key, value) for key, value in answer.items()}
    return [plain(each) for each in answer] if isinstance(answer, list) else answer


def snake(name: str) -> str:
    """Return a name of SQS in snake_case: `md5_of_body` for MD5OfBody."""
    return _BOUNDARY.sub("_", name).lower()


def _member(name: str, value: Any) -> Any:
    if name in _USERS and isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if not isinstance(value, str):
        return plain(value)
    if name in DOCUMENTS:
        return json.loads(value)
    if name in _BOOLEANS:
        return value == "true"
    return int(value) if _NUMBER.fullmatch(name) and value.isdecimal() else value
