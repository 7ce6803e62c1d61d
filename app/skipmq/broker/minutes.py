"""What happened in the broker in each of the last minutes: counted by nodes, and kept for hours."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import NamedTuple

from skipmq.database.partitions import Database
from skipmq.database.statement import BIGINTS, INTEGER, INTEGERS, TEXTS, Search, Statement, columns
from skipmq.protocol import errors
from skipmq.telemetry.metrics import HISTOGRAMS

# The longest time that is kept, and the account of all queues and that of what nodes measure.
KEPT_MINUTES = 360
ALL, NODES = "*", ""
# The last minutes, which are always read, and the seconds for which those before are kept.
_CHANGING_MINUTES, _KEPT_SECONDS = 20, 300
# Accounts and lengths of which minutes are kept.
_MAX_KEPT = 32
_MINUTE = 60
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
    """Add numbers to the minutes; return False where the database is unavailable.

    What may have been added is not added again: a number that lacks is better than a double one.
    """
    now = monotonic()
    rows = [(int(now - each.at), *each[1:]) for each in notes]
    try:
        await database.rows_anywhere(_NOTE, [*map(list, zip(*rows, strict=True))])
    except errors.OutcomeUnknown:
        return True
    except errors.SqsError:
        return False
    return True


class RecentMinutes:
    """The last minutes, of which older ones are kept for some minutes more; for one loop.

    Nodes note a minute within the next one. What one notes later, after an outage, shows when all
    are read again. Those of partitions are not kept: one may be unavailable.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[tuple[tuple[str, ...], int, int], tuple[float, list[BrokerMinute]]] = {}

    async def read(
        self, accounts: Sequence[str], minutes: int, step: int, clock: float, deadline: float
    ) -> list[BrokerMinute]:
        """Return the numbers of the last minutes by steps, oldest first; `clock` is the present."""
        key = (tuple(accounts), minutes, step)
        read_at, kept = self._kept.get(key, (0.0, []))
        if not 0 <= clock - read_at < _KEPT_SECONDS or minutes <= _CHANGING_MINUTES:
            found, is_whole = await self._read(accounts, minutes, step, deadline)
            if is_whole:
                if len(self._kept) >= _MAX_KEPT:
                    self._kept.clear()
                self._kept[key] = (clock, found)
            return found
        found, _ = await self._read(accounts, _CHANGING_MINUTES, step, deadline)
        first, changing = (_first(clock, each, step) for each in (minutes, _CHANGING_MINUTES))
        # The database may have been a minute further, so that it left a step out.
        changing += _MINUTE * step
        older = [each for each in kept if first <= each.minute < changing]
        return older + [each for each in found if each.minute >= changing]

    async def _read(
        self, accounts: Sequence[str], minutes: int, step: int, deadline: float
    ) -> tuple[list[BrokerMinute], bool]:
        parameters = ([*accounts], minutes, step)
        parts = await self._database.rows_everywhere(_LIST, parameters, deadline=deadline)
        return added([[*map(BrokerMinute._make, rows)] for rows in parts]), len(parts) == 1


def _first(clock: float, minutes: int, step: int) -> int:
    """Return the start of the first step of the last minutes, as broker_minutes does."""
    seconds = _MINUTE * step
    return int(clock) // seconds * seconds + seconds - _MINUTE * minutes


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
