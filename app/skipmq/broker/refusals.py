"""Refused requests by queue, caller and error: counted in memory, and written every few seconds."""

from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from skipmq.database.partitions import Database
from skipmq.database.statement import BIGINTS, INTEGER, TEXT, TEXTS, Search, Statement, columns
from skipmq.database.wakeup import Flushed
from skipmq.protocol import errors
from skipmq.telemetry.metrics import Observer

_INTERVAL = 5.0
# The queues, callers and errors that a process counts by themselves: in metrics since its start, in
# the database by the hour. Further ones are counted as one by their error.
_MOST, _HOUR = 100, 3600.0
OTHERS = "others"
MINUTES = 10


class RefusalKey(NamedTuple):
    """What refusals are counted by; the queue is `*` where the request named none."""

    account: str
    region: str
    queue: str
    caller: str
    error: str


class Refusal(NamedTuple):
    """The refusals of a caller in the last MINUTES minutes; `seconds` since the first."""

    account: str
    region: str
    queue: str
    caller: str
    error: str
    number: int
    seconds: float

    @property
    def per_minute(self) -> int:
        """The refusals per minute since the first of these minutes, at least one."""
        return max(1, round(self.number / min(max(self.seconds / 60, 1), MINUTES)))


_NOTE = Statement(
    "select skipmq.note_refusals($1, $2, $3, $4, $5, $6)",
    TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, BIGINTS, repeatable=False,
)  # fmt: skip
_LIST = Search(
    f"select {columns(Refusal)} from skipmq.refusals($1, $2, $3, $4)", TEXT, TEXT, TEXT, INTEGER
)


class Refusals(Flushed):
    """Counters of refused requests; for one loop."""

    def __init__(self, database: Database, observer: Observer, account: str, region: str) -> None:
        super().__init__(_INTERVAL)
        self._own = account, region
        self._database, self._observer = database, observer
        self._counts: dict[RefusalKey, int] = {}
        self._labels: set[tuple[str, ...]] = set()
        self._keys: set[RefusalKey] = set()
        self._hour = monotonic()

    def note(self, key: RefusalKey) -> None:
        """Count a refusal."""
        labels = key[2:]
        if labels not in self._labels and len(self._labels) >= _MOST:
            labels = ("*", OTHERS, key.error)
        self._labels.add(labels)
        self._observer.count("refusals", labels)
        if monotonic() - self._hour > _HOUR:
            self._hour, self._keys = monotonic(), set()
        if key not in self._keys and len(self._keys) >= _MOST:
            key = RefusalKey(*self._own, "*", OTHERS, key.error)
        self._keys.add(key)
        self._counts[key] = self._counts.get(key, 0) + 1

    async def _write(self) -> None:
        """Write the counts, or discard them if the database is unavailable."""
        counts, self._counts = self._counts, {}
        if counts:
            keys = zip(*counts, strict=True)
            with suppress(errors.SqsError):
                await self._database.rows_anywhere(_NOTE, (*map(list, keys), list(counts.values())))


async def recent(
    database: Database,
    account: str | None,
    region: str | None,
    queue: str | None,
    deadline: float,
) -> list[Refusal]:
    """Return the refusals of an account and region, or of all, or on a queue, the most first."""
    parameters = (account, region, queue, MINUTES)
    found = await database.rows_everywhere(_LIST, parameters, deadline=deadline)
    rows = [Refusal(*row) for rows in found for row in rows]
    return sorted(rows, key=lambda row: -row.number)
