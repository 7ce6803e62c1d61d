"""Output of commands, as text or JSON."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
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
_PADDING = re.compile(" +$", re.MULTILINE)
# Maps whose keys the user chose.
_USERS = {"MessageAttributes", "Tags"}
# Texts of SQS that are numbers or booleans.
_NUMBER = re.compile("Approximate.+|.+Seconds|.+Period|VisibilityTimeout|MaximumMessageSize")
_BOOLEANS = {"FifoQueue", "ContentBasedDeduplication", "SqsManagedSseEnabled", "Paused"}
# Times since 1970, in seconds, milliseconds or microseconds.
_TIME = re.compile("At|Clock|HistorySearchedFrom|.+Timestamp")
_PRECISION = ("seconds", "milliseconds", "microseconds")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOUNDARY = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _Visible(Console):
    """A console for text of others, of which nothing reaches the terminal that controls it."""

    def __init__(self, *, stderr: bool = False) -> None:
        width = None if stderr or sys.stdout.isatty() else _UNWRAPPED
        super().__init__(highlight=False, stderr=stderr, width=width)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object; what rich itself writes to control the terminal stays."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=visible(part.text))

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; where it is not to a terminal, without the padding of tables."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(_PADDING.sub("", captured.get()))
        self.file.flush()


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def limit_option(default: int, most: int, about: str) -> Callable[..., Any]:
    """Return the option `--limit`, from 1 to `most`."""
    kind = click.IntRange(1, most)
    return click.option("--limit", type=kind, default=default, show_default=True, help=about)


yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
out = _Visible()
err = _Visible(stderr=True)


def printing_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--json` to a command that returns a result for JSON and a text or table."""

    @json_option
    @wraps(command)
    def wrapped(*args: Any, as_json: bool, **options: Any) -> None:
        result, text = command(*args, **options)
        if as_json:
            print_json(result)
        else:
            # Soft wrapping keeps words whole, so that they can be copied.
            out.print(text, soft_wrap=isinstance(text, str | Text))

    return wrapped


def print_json(result: Mapping[str, Any], indent: int | None = 2) -> None:
    """Print the result of a command as one object for programs; times are in ISO 8601 of UTC."""
    click.echo(json.dumps(result, indent=indent, default=_encoded))


def _encoded(value: Any) -> str:
    return iso(value) if isinstance(value, datetime) else str(value)


def note(text: str) -> None:
    """Print a line that is no result."""
    click.echo(visible(f"skipmq: {text}"), err=True)


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
    return None if seconds is None else iso(datetime.fromtimestamp(int(seconds), UTC))


def shown_milliseconds(milliseconds: float) -> str:
    """Format a time in milliseconds since 1970 in ISO 8601."""
    return shown_time(milliseconds / 1000) or ""


def iso(moment: datetime, precision: str = "auto") -> str:
    """Format a time, by default one of UTC, in ISO 8601."""
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


def ask(question: str, declined: str = "nothing was deleted") -> None:
    """Ask a question; raise click.ClickException unless the answer is yes."""
    try:
        agreed = click.confirm(visible(question), err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise
        click.echo(err=True)  # The end of standard input.
        agreed = False
    if not agreed:
        raise click.ClickException(f"{declined}; --yes answers the question")


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
    if _TIME.fullmatch(name) and str(value).isdecimal():
        return _time(int(value))
    if not isinstance(value, str):
        return plain(value)
    if name in DOCUMENTS:
        return json.loads(value)
    if name in _BOOLEANS:
        return value == "true"
    return int(value) if _NUMBER.fullmatch(name) and value.isdecimal() else value


def _time(number: int) -> str:
    # The digits of the present: 10 of seconds, 13 of milliseconds, 16 of microseconds.
    thousands = min(max(len(str(number)) - 10, 0) // 3, 2)
    moment = _EPOCH + timedelta(microseconds=number * 1000 ** (2 - thousands))
    return iso(moment, _PRECISION[thousands])
