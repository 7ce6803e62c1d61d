"""Output of commands, as text or JSON, and relative times in their options.

Tables fit the terminal: a key is never cut, columns go first, and bodies shrink.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, NamedTuple

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
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
_AGO = re.compile("([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# Below this many characters a text that shrinks is omitted, too.
_SHORTEST = 12
_GAP = 2


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


def ago(text: str) -> timedelta | None:
    """Return how long ago a text such as 30m, 6h, 2d or 1w is, None for another text."""
    found = _AGO.fullmatch(text)
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


class Column(NamedTuple):
    """A column: in a narrow terminal that of the largest `rank` is omitted first, one of 0 never.

    A text that `shrinks` is cut at the end of the line; numbers are aligned to the right. `of` is
    the member of a record that it has, by default that of the heading, or a function of the record;
    what is there is shown by `form`.
    """

    heading: str
    rank: int = 0
    is_number: bool = False
    shrinks: bool = False
    of: str | Callable[[Any], Any] = ""
    form: Callable[[Any], str] = cell

    def text(self, record: Any) -> str:
        """Return what it shows of a record, an object or a mapping."""
        member = self.of or self.heading.replace(" ", "_")
        if callable(member):
            value = member(record)
        elif isinstance(record, Mapping):
            value = record.get(member)
        else:
            value = getattr(record, member)
        return "" if value is None else self.form(value)


def listed(columns: Sequence[Column], records: Iterable[Any], *, last: Sequence[str] = ()) -> Table:
    """Return a table of records as `table` does."""
    rows = ([each.text(record) for each in columns] for record in records)
    return table(columns, rows, last=last)


def table(
    columns: Sequence[Column], rows: Iterable[Iterable[str]], *, last: Sequence[str] = ()
) -> Table:
    """Return a table of rows that fits the terminal; `last` is a dim row of sums, if any."""
    cells = [[visible(text) for text in row] for row in rows]
    widths = [
        max(cell_len(line) for text in texts for line in text.split("\n"))
        for texts in zip(
            [each.heading for each in columns], *cells, *([last] if last else []), strict=True
        )
    ]
    shown = _fitting(columns, widths)
    # What the others leave is divided between the columns that shrink, the narrow ones first.
    shrinking = sorted(
        (number for number in shown if columns[number].shrinks), key=widths.__getitem__
    )
    room = out.width + _GAP
    room -= sum(_GAP + (0 if number in shrinking else widths[number]) for number in shown)
    rooms: dict[int, int] = {}
    for place, number in enumerate(shrinking):
        share = max(room // (len(shrinking) - place), _SHORTEST)
        rooms[number] = min(share, widths[number])
        room -= rooms[number]
    made = Table(box=None, pad_edge=False)
    for number in shown:
        column = columns[number]
        made.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            overflow="ellipsis" if column.shrinks else "fold",
            no_wrap=column.shrinks or widths[number] <= out.width,
            max_width=rooms.get(number),
        )
    for row in cells:
        made.add_row(*(Text(row[number]) for number in shown))
    if last:
        made.add_row(*(Text(last[number]) for number in shown), style="dim")
    return made


def _fitting(columns: Sequence[Column], widths: Sequence[int]) -> list[int]:
    """Return the numbers of the columns that the width of the terminal has room for."""
    shown = [*range(len(columns))]
    while sum(_least(columns[n], widths[n]) + _GAP for n in shown) - _GAP > out.width:
        dropped = max(shown, key=lambda number: columns[number].rank)
        if not columns[dropped].rank:
            break
        shown.remove(dropped)
    return shown


def _least(column: Column, width: int) -> int:
    return min(width, _SHORTEST) if column.shrinks else width
