"""Locks of other sessions on the tables of messages, for health checks and operators."""

from time import monotonic
from typing import NamedTuple

from skipmq.database.partitions import Database
from skipmq.database.pool import TABLE_LOCK
from skipmq.database.wakeup import SharedRead
from skipmq.protocol import errors

# The age in seconds from which a lock is reported: maintenance holds one for a moment.
REPORTED_AFTER = 10.0
# Seconds for which an answer is cached, and that readiness waits for a new one.
_VALID_SECONDS, _GLANCE = 1.0, 0.3


class TableLock(NamedTuple):
    """The oldest lock: its age in seconds, None where it cannot be seen, and its session."""

    seconds: float | None
    session: str


class TableLocks:
    """A cache of the oldest lock that keeps requests waiting; for one loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reading = SharedRead(self._read)
        self._latest: tuple[float, TableLock | None] = (-_VALID_SECONDS, None)

    async def oldest(self, seconds: float = _GLANCE) -> TableLock | None:
        """Return the oldest lock from REPORTED_AFTER on, at most a second old; None without one.

        Where the database does not answer within `seconds`, return the latest.
        """
        if monotonic() - self._latest[0] >= _VALID_SECONDS:
            await self._reading.within(seconds)
        return self._latest[1]

    async def _read(self) -> None:
        found: TableLock | None = None
        try:
            for ((session, seconds),) in await self._database.rows_everywhere(TABLE_LOCK):
                if session is not None and (seconds is None or seconds >= REPORTED_AFTER):
                    found = max(found, TableLock(seconds, session), key=_age)
        except errors.SqsError:
            return
        self._latest = (monotonic(), found)


def _age(lock: TableLock | None) -> float:
    return -1.0 if lock is None else lock.seconds or 0.0
