"""What happened in the broker in each of the last minutes: counted by nodes, and kept for hours."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from skipmq.database.partitions import Database
from skipmq.database.statement import BIGINTS, INTEGER, INTEGERS, TEXTS, Search, Statement, columns
from skipmq.protocol import errors
from skipmq.telemetry.metrics import HISTOGRAMS

# The longest time that is kept, and the account of all queues and that of what nodes measure.
KEPT_MINUTES = 360
ALL, NODES = "*", ""
# By the upper bounds of their buckets in seconds.
BOUNDS = (*map(str, HISTOGRAMS["request"].buckets), "inf")

_NOTE = Statement(
    "select skipmq.note_minute($1, $2, $3, $4)", INTEGERS, TEXTS, TEXTS, BIGINTS, repeatable=False
)


class Note(NamedTuple):
    """A number to add to the minute of `at`, a time of time.monotonic."""

    at: float
    kind: str
    label: str
    number: int = 1


class BrokerMinute(NamedTuple):
    """A number of a minute, which begins at `minute` in seconds since 1970, or of a step."""

    minute: int
    kind: str
    label: str
    number: int


_LIST = Search(
    f"select {columns(BrokerMinute, minute='extract(epoch from minute)::bigint')}"
    " from skipmq.broker_minutes($1, $2, $3)",
    TEXTS, INTEGER, INTEGER,
)  # fmt: skip


async def note(database: Database, notes: Iterable[Note]) -> bool:
    """Add numbers to the minutes; return False where the database is unavailable."""
    now = monotonic()
    rows = [(int(now - each.at), *each[1:]) for each in notes]
    with suppress(errors.SqsError):
        await database.rows_anywhere(_NOTE, [*map(list, zip(*rows, strict=True))])
        return True
    return False


async def recent(
    database: Database, accounts: Sequence[str], minutes: int, step: int, deadline: float
) -> list[BrokerMinute]:
    """Return the numbers of the last minutes by steps, oldest first."""
    parameters = ([*accounts], minutes, step)
    parts = await database.rows_everywhere(_LIST, parameters, deadline=deadline)
    return added([[*map(BrokerMinute._make, rows)] for rows in parts])


def added(parts: Sequence[Sequence[BrokerMinute]]) -> list[BrokerMinute]:
    """Return the sums of the numbers of partitions, each of which has them oldest first.

    Each has a timeline of its own. The messages in queues are noted where they change, and not in
    all partitions at once: the last number of a partition holds until its next one.
    """
    found: defaultdict[tuple[int, str, str], int] = defaultdict(int)
    steps = sorted({row.minute for rows in parts for row in rows if row.kind == "messages"})
    for number, rows in enumerate(parts):
        waiting = {row.minute: row.number for row in rows if row.kind == "messages"}
        last = 0
        for step in steps:
            last = waiting.get(step, last)
            found[step, "messages", ""] += last
        for row in rows:
            if row.kind != "messages":
                label = f"{number}.{row.label}" if row.kind == "timeline" else row.label
                found[row.minute, row.kind, label] += row.number
    return [BrokerMinute(*key, number) for key, number in sorted(found.items())]


def quantile(counts: Iterable[int], share: float) -> float | None:
    """Return the upper bound in seconds of the bucket that has a share of requests below it.

    Of the last bucket, which has none, it is the lower one.
    """
    numbers = [*counts]
    rest = share * sum(numbers)
    if not rest:
        return None
    bounds = HISTOGRAMS["request"].buckets
    for bound, number in zip([*bounds, bounds[-1]], numbers, strict=True):
        rest -= number
        if rest <= 0:
            return bound
    return bounds[-1]
