"""An overview of the database for operators: the server, its standbys and sessions, and metrics."""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Annotated, Any, NamedTuple

import msgspec

from skipmq.broker.upkeep import database_statistics
from skipmq.database.partitions import Database
from skipmq.database.pool import Pool
from skipmq.database.replication import Level, Replication
from skipmq.database.statement import BOOLEAN, INTEGER, TIME, Search, Statement, columns, whole
from skipmq.database.wakeup import SharedRead, every
from skipmq.protocol import errors

# Seconds for which an overview is current, and that a caller waits for a new one.
_VALID_SECONDS, _TIMEOUT = 2.0, 3.0
# Seconds between two polls without callers, so that there is an overview when the database becomes
# unavailable, and from the start of a node to the first, which must not hold up its start.
_INTERVAL, _FIRST_AFTER = 60.0, 2.0


class Server(NamedTuple):
    """The primary; times in seconds since 1970, by its own clock.

    `host` is None on a Unix socket. `may_see`: the schema's `owner` sees the standbys, each with
    `name`, `address`, `state`, `sync`, `bytes` and `seconds`. `sessions` have `program`, `role`,
    `database` and `number`, and `address` and `seconds` where the owner sees them. `reserved` is
    the number of connections that nodes may not use, `data_directory` that of a server on this
    machine. `damage` has the rows of skipmq.damaged_pages.
    """

    host: str | None
    port: int
    version: str
    revision: str | None
    started_at: Annotated[float, "extract(epoch from started_at)::float8"]
    now: Annotated[float, "extract(epoch from now_at)::float8"]
    timeline: int
    oldest_snapshot: float | None
    oldest_session: str | None
    reserved: int
    data_directory: str | None
    owner: str
    may_see: bool
    standby_count: int
    standbys: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    damage: list[dict[str, Any]]


_SERVER = Search(f"select {columns(Server)} from skipmq.database_overview()")


class OverviewSnapshot(NamedTuple):
    """An overview of the database, read at `at`, a time of time.monotonic."""

    at: float
    server: Server
    level: Level
    # By name and label, as in /metrics.
    metrics: dict[tuple[str, str], float]


class Overview(NamedTuple):
    """The latest overview of a database, and the error that keeps it from being current, if any."""

    pool: Pool
    snapshot: OverviewSnapshot | None
    error: errors.SqsError | None


class Overviews:
    """Caches of the latest overview of the database, or of each partition; for one loop."""

    def __init__(self, database: Database, replication: Replication) -> None:
        self._database, self._replication = database, replication
        self._caches: dict[Pool, _Cache] = {}

    async def current(self) -> list[Overview]:
        """Return the overview of the database, or of each partition in order.

        Of a router whose partitions are unknown it is one, with an error.
        """
        try:
            await self._database.open_partitions()
        except errors.SqsError as error:
            return [Overview(self._database.pool, None, error)]
        pools = self._database.known()
        for pool in pools:
            self._caches.setdefault(pool, _Cache(pool, self._replication))
        return await asyncio.gather(*(self._caches[pool].current() for pool in pools))

    def lacks_standbys(self) -> bool:
        """Return whether fewer standbys than commits wait for were connected, a minute ago at most.

        Reads nothing.
        """
        known = [each.latest for each in self._caches.values() if each.latest is not None]
        return any(each.server.standby_count < each.level.required for each in known)

    async def run(self) -> None:
        """Read the overviews at intervals until cancelled."""
        await asyncio.sleep(_FIRST_AFTER)
        await self.current()
        await every(_INTERVAL, self._refresh, "the database cannot be described")

    async def _refresh(self) -> None:
        with suppress(errors.SqsError):
            await self._database.look_for_partitions()
        await self.current()


class _Cache:
    """A cache of the latest overview of one database; concurrent callers share one query."""

    def __init__(self, pool: Pool, replication: Replication) -> None:
        self._pool, self._replication = pool, replication
        self._reading = SharedRead(self._read)
        self.latest: OverviewSnapshot | None = None

    async def current(self) -> Overview:
        if self.latest is not None and monotonic() - self.latest.at < _VALID_SECONDS:
            return Overview(self._pool, self.latest, None)
        reading = await self._reading.within(_TIMEOUT)
        if reading is None:
            return Overview(self._pool, self.latest, errors.ServiceUnavailable())
        error = reading.exception()
        if error is None:
            self.latest = reading.result()
        elif not isinstance(error, errors.SqsError):
            raise error
        return Overview(self._pool, self.latest, error)

    async def _read(self) -> OverviewSnapshot:
        (row,) = await self._pool.rows(_SERVER)
        level = await self._replication.level_of(self._pool)
        found = await database_statistics(self._pool)
        metrics = {(name, label): value for name, label, value in found}
        return OverviewSnapshot(monotonic(), Server(*row), level, metrics)


class Session(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A client's session; `blocked_by` has processes.

    What the schema's owner may not see is None.
    """

    process_id: Annotated[int, "pid"]
    holds_snapshot: Annotated[bool, "coalesce(holds_snapshot, false)"]
    blocked_by: list[int]
    may_end: bool
    started_microseconds: Annotated[int | None, "began"] = None
    program: str | None = None
    role: str | None = None
    database: str | None = None
    client_address: Annotated[str | None, "address"] = None
    state: str | None = None
    seconds: Annotated[int | None, whole("seconds")] = None
    state_seconds: Annotated[int | None, whole("state_seconds")] = None
    transaction_seconds: Annotated[int | None, whole("transaction_seconds")] = None
    waits_for: str | None = None


_SESSIONS = Search(f"select {columns(Session)} from skipmq.database_sessions()")
_END_SESSION = Statement(
    "select skipmq.end_backend($1, $2, $3)", INTEGER, TIME, BOOLEAN, repeatable=False
)


async def sessions(pool: Pool, deadline: float) -> list[Session]:
    """Return the sessions of a server: those that block others first, then those that wait."""
    return [Session(*row) for row in await pool.rows(_SESSIONS, deadline=deadline)]


async def end_session(
    pool: Pool, pid: int, began: int | None, *, terminates: bool, deadline: float
) -> str:
    """Cancel a session's statement, or terminate it; return done, missing or refused."""
    ((outcome,),) = await pool.rows(_END_SESSION, (pid, began, terminates), deadline=deadline)
    return str(outcome)
