"""What an operator who is paged asks of the database first, as far as a node can know it."""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from skipmq import errors
from skipmq.database import Database, Level, Replication, Search
from skipmq.store.upkeep import Upkeep

_SERVER = Search(
    "select host, port, version, revision, extract(epoch from started_at)::float8,"
    " extract(epoch from now_at)::float8, timeline, oldest_snapshot, owner, may_see,"
    " standby_count, standbys, sessions from skipmq.database_overview()"
)
# What is known is asked again after so many seconds; nobody waits longer for it.
_KNOWN_FOR, _TIMEOUT = 2.0, 3.0
# So often it is asked while nobody looks: who comes in an outage wants to see what was before.
_INTERVAL = 60.0


class Server(NamedTuple):
    """The server that takes the writes; times in seconds since 1970, by its own clock.

    `host` is None on a Unix socket. `may_see` tells whether the schema's `owner` sees standbys:
    `name`, `address`, `state`, `sync`, `bytes`, `seconds`. `sessions` have the `program`, its
    `address` and `seconds`, where they may be seen, and their `number`.
    """

    host: str | None
    port: int
    version: str
    revision: str | None
    started_at: float
    now: float
    timeline: int
    oldest_snapshot: float | None
    owner: str
    may_see: bool
    standby_count: int
    standbys: list[dict[str, Any]]
    sessions: list[dict[str, Any]]


class Known(NamedTuple):
    """What the database said at a time of time.monotonic."""

    at: float
    server: Server
    level: Level
    # By name and label, as /metrics has them.
    numbers: dict[tuple[str, str], float]


class Overview:
    """Asks the database once, however many look; keeps what it said last. For one loop."""

    def __init__(self, database: Database, replication: Replication) -> None:
        self._database, self._replication = database, replication
        self._upkeep = Upkeep(database)
        self._asking: asyncio.Task[Known] | None = None
        # What was said last.
        self.known: Known | None = None

    async def current(self) -> tuple[Known | None, errors.SqsError | None]:
        """Return what is known, and why it is not what holds now, where it is not."""
        if self.known is not None and monotonic() - self.known.at < _KNOWN_FOR:
            return self.known, None
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask())
            # One that nobody waits for any longer may fail.
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait({self._asking}, timeout=_TIMEOUT)
        if not done:
            return self.known, errors.ServiceUnavailable()
        error = self._asking.exception()
        if error is None:
            self.known = self._asking.result()
        elif not isinstance(error, errors.SqsError):
            raise error
        return self.known, error

    async def run(self) -> None:
        """Know something of the database all the time, until it is cancelled."""
        while True:
            with suppress(errors.SqsError):
                await self.current()
            await asyncio.sleep(_INTERVAL)

    async def _ask(self) -> Known:
        (row,) = await self._database.rows(_SERVER)
        level = await self._replication.level()
        found = await self._upkeep.database_statistics()
        numbers = {(name, label): value for name, label, value in found}
        return Known(monotonic(), Server(*row), level, numbers)
