"""Tables that fit the terminal: a key is never cut, columns go first, and bodies shrink."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from skipmq.cli.output import cell, out
from skipmq.telemetry.terminal import visible

# Below this many characters a text that shrinks is omitted, too.
_SHORTEST = 12
_GAP = 2


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
