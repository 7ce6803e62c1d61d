"""A connection pool that retries statements through a failover, within a deadline.

Whether a statement ran is unknown when its connection breaks. A repeatable one is run again once
the database is available.

The pool is a list: the holder of a permit of the fair semaphore takes a connection from it or opens
one. A checkout from SQLAlchemy's asyncio engine takes 28 to 47 µs of processor time.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic, perf_counter
from typing import Any

import psycopg

from skipmq.database import connection, retry
from skipmq.database.availability import Availability
from skipmq.database.connection import Connection, Session
from skipmq.database.fairness import FairSemaphore, Tenant
from skipmq.database.retry import DamageNotes, Verdict, has_no_slot, is_read_only
from skipmq.database.statement import Lookup, Rows, Search, Statement
from skipmq.protocol import errors
from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import Observer

_READ_ONLY = Statement("show transaction_read_only")
_STANDBYS = Statement(
    "select case when connected < required then 'too few' else 'enough' end"
    " from skipmq.replication()"
)
TABLE_LOCK = Statement(
    "select session, extract(epoch from clock_timestamp() - began)::float8 from skipmq.table_lock()"
)
_TRIES = 3
# Seconds that a statement waits for a connection at least: a node's waits twice as long as
# SKIPMQ_DATABASE_DEADLINE, after which one whose statement hangs is closed.
CONNECTION_WAIT = 10.0
# Seconds that a statement of a command may take.
STATEMENT_SECONDS = 60.0
_TOO_SLOW = "The database did not answer in time; try again."
# The least time for a search, even past its deadline.
_MINIMUM_SECONDS = 0.1
Parameters = Sequence[object]


# Seconds until a statement is sent again to a partition that is unavailable.
_PAUSE = 0.25


class _Unavailable(Exception):  # noqa: N818 - caught in this file.
    """The database is unavailable; with `unknown` the statement may have run.

    `is_partition`: only the partition to which a router sent the statement is.
    """

    def __init__(self, error: Exception, *, unknown: bool, is_partition: bool = False) -> None:
        super().__init__(error)
        self.error = error
        self.unknown = unknown
        self.is_partition = is_partition


def _is_final(error: Exception) -> bool:
    """Return whether an error also answers an earlier try whose outcome is unknown."""
    return isinstance(error, errors.SqsError) and not isinstance(
        error, (errors.ServiceUnavailable, errors.Locked)
    )


class Pool:
    """A pool of connections to one database, or to the servers of one cluster; for one loop.

    Every statement is a transaction of its own. It waits `connection_wait` seconds at most for a
    connection and may then take `seconds`. `application_name` is shown in pg_stat_activity.
    """

    def __init__(  # noqa: PLR0913 - all but the first have defaults.
        self,
        url: str,
        *,
        size: int,
        connection_wait: float = CONNECTION_WAIT,
        seconds: float = STATEMENT_SECONDS,
        application_name: str = "skipmq",
        observer: Observer | None = None,
    ) -> None:
        self._parameters = connection.parameters(url, application_name)
        self._seconds = seconds
        # Seconds that one try of a statement may take, the wait for its connection included.
        self.longest_try = connection_wait + seconds
        self.observer = observer or Observer()
        self._idle: list[Connection] = []
        self._is_closed = False
        self._cancelling: set[asyncio.Task[None]] = set()
        self._permits = FairSemaphore(size, connection_wait)
        # Incremented with every connection: what one server reported may not hold on another.
        self.generation = 0
        # The server of the connection opened last.
        self.address = ""
        self._damage = DamageNotes(self.rows)
        # Called with every error that needs operator action.
        self.needs_operator: Callable[[errors.NeedsOperator], None] = lambda _: None
        # Whether statements on queues bypass the server, which may be away without them.
        self.is_router = False
        self.availability = Availability("database", self._probe, self.observer)
        # While too few standbys are connected, only statements that need them wait.
        self.standbys = Availability("standbys", self._probe_standbys, self.observer)
        # While another program locks a table, statements on queues wait without a connection.
        self.tables = Availability("tables", self._probe_tables, self.observer, quiet=True)

    async def rows(  # noqa: PLR0913 - all but the first two have defaults.
        self,
        statement: Statement,
        parameters: Parameters = (),
        *,
        deadline: float = 0.0,
        tenant: Tenant = None,
        again: Parameters | None = None,
        durable: bool = False,
        may_be_done: bool = False,
    ) -> Rows:
        """Run one statement and return its rows, through a failover if the deadline allows.

        `deadline` is the time of time.monotonic until which it may wait for the database, or a
        Search may take. A `repeatable` statement must be safe to run again after it may have run,
        then with the parameters `again` if given. `durable` statements wait for a standby;
        `may_be_done` means that an earlier call may have run this one.

        Raises the SqsError of the statement's SQLSTATE, errors.ServiceUnavailable when the database
        is unavailable or all connections stay busy, errors.OutcomeUnknown when it is unavailable
        and may have run the statement, errors.Locked when another transaction holds a lock.
        """
        values = statement.bind(parameters)
        tries, unknown = 0, may_be_done
        is_parked = tenant is not None and self.tables.failure is not None and deadline
        if is_parked and not await self.tables.wait(deadline):
            raise errors.OutcomeUnknown if unknown else errors.TableLocked
        while True:
            try:
                return await self._run(statement, values, tenant, durable, deadline)
            except _Unavailable as failed:
                if failed.unknown and not unknown:
                    unknown = True
                    values = statement.bind(again or parameters)
                may_retry = statement.repeatable or not failed.unknown
                if failed.is_partition and may_retry and monotonic() + _PAUSE < deadline:
                    await asyncio.sleep(_PAUSE)
                    self.observer.count("retried")
                    continue
                may_retry = may_retry and not failed.is_partition
                if not (may_retry and await self._wait_until_available(deadline, durable)):
                    self._raise_unavailable(failed.error, unknown)
                self.observer.count("retried")
            except psycopg.Error as error:
                verdict = retry.classify(error.sqlstate, broken=False)
                tries += 1
                may_retry = verdict is Verdict.LOCKED and await self._wait_for_tables(
                    error, deadline
                )
                # The lock's holder is probably the earlier try, which waits for its standby.
                may_retry = may_retry or (
                    verdict is Verdict.LOCKED and unknown and monotonic() < deadline
                )
                if not may_retry and (verdict is not Verdict.AGAIN or tries >= _TRIES):
                    raise self._final_error(error, verdict, unknown=unknown) from error

    async def session(self, application_name: str = "") -> Session:
        """Open a connection outside the pool, with an application_name of its own if given.

        Raises psycopg.OperationalError when the database is unavailable.
        """
        named = {"application_name": application_name} if application_name else {}
        return await Session.open(self._parameters | named, self._seconds, self.availability)

    def show(self) -> None:
        """Pass the pool's gauges to the observer."""
        self.observer.show("connections", len(self._idle) + self._permits.held())
        self.observer.show("waiting for connections", self._permits.waiting())

    def stop(self) -> None:
        """End all waits for the database, present and future."""
        for each in (self.availability, self.standbys, self.tables):
            each.stop()

    def close(self) -> None:
        """Close all connections: those that run a statement when it is done."""
        self._is_closed = True
        self.stop()
        self._discard_idle()

    async def _wait_until_available(self, deadline: float, durable: bool) -> bool:
        """Wait until a statement can be retried; return whether it can before the deadline."""
        is_available = await self.availability.wait(deadline)
        if is_available and durable:
            is_available = await self.standbys.wait(deadline)
        return is_available and monotonic() < deadline

    async def _wait_for_tables(self, error: psycopg.Error, deadline: float) -> bool:
        """Wait while another program locks a table; return whether one did and no longer does."""
        if monotonic() >= deadline:
            return False
        was_locked, outages = self.tables.failure is not None, self.tables.outages
        self.tables.mark_unavailable(error)
        is_available = await self.tables.wait(deadline)
        return is_available and (was_locked or self.tables.outages > outages)

    def _final_error(self, error: psycopg.Error, verdict: Verdict, *, unknown: bool) -> Exception:
        """Return the error of a statement that is not retried."""
        translated = retry.translated(error, verdict)
        if isinstance(translated, errors.NeedsOperator):
            self.needs_operator(translated)
        if isinstance(translated, errors.DatabaseDamaged):
            self._damage.note(translated.reason)
        if unknown and not _is_final(translated):
            self.observer.count("unknown")
            return errors.OutcomeUnknown()
        if verdict is Verdict.LOCKED and self.tables.failure is not None:
            return errors.TableLocked()
        return translated

    def _raise_unavailable(self, error: Exception, unknown: bool) -> None:
        if unknown:
            self.observer.count("unknown")
            raise errors.OutcomeUnknown from error
        if self.is_router and self.availability.is_unavailable:
            raise errors.RouterUnavailable from error
        failure = self.availability.failure or error
        # Of several servers the primary may have no slot while the others are read-only.
        if has_no_slot(failure):
            raise errors.NoConnectionSlot from error
        if is_read_only(failure):
            raise errors.DatabaseReadOnly from error
        raise errors.ServiceUnavailable from error

    async def _run(
        self,
        statement: Statement,
        values: list[bytes | None],
        tenant: Tenant,
        durable: bool,
        deadline: float,
    ) -> Rows:
        """Run a statement on a connection, in the tenant's turn.

        Raises _Unavailable, or psycopg.Error when the server rejects the statement.
        """
        is_search = isinstance(statement, Search)
        began = permitted = perf_counter()
        if not self._permits.take(tenant):
            await self._permits.acquire(tenant)
            permitted = perf_counter()
        borrowed: Connection | None = None
        try:
            if self.availability.is_unavailable or (durable and self.standbys.is_unavailable):
                may_read = is_search or isinstance(statement, Lookup)
                if may_read and is_read_only(self.availability.failure):
                    # Of any server, also a standby; not kept, as it may be the primary no more.
                    borrowed = await self._open(target_session_attrs="any")
                    rows = await self._read(borrowed, statement, values, self._limit(deadline))
                    if rows or is_search:
                        return rows
                raise _Unavailable(errors.ServiceUnavailable(), unknown=False)
            borrowed = self._take_idle() or await self._open()
            seconds = self._limit(deadline) if is_search else self._seconds
            rows = await borrowed.rows(statement, values, seconds)
            if borrowed.unreplicated:
                # Committed on the primary alone, so that a failover may undo it.
                raise _Unavailable(errors.OutcomeUnknown(), unknown=True)
        except psycopg.Error as error:
            if borrowed is not None:
                self._examine(error, borrowed, durable, is_search)
            raise
        finally:
            if borrowed is not None:
                self._give_back(borrowed, is_search)
            self._permits.release(tenant)
        self.observer.observe("connection wait", permitted - began)
        self.observer.observe("transaction", perf_counter() - permitted)
        return rows

    def _limit(self, deadline: float) -> float:
        if not deadline:
            return self._seconds
        return min(self._seconds, max(deadline - monotonic(), _MINIMUM_SECONDS))

    async def _read(
        self, opened: Connection, statement: Statement, values: list[bytes | None], seconds: float
    ) -> Rows:
        """Run a statement that writes nothing, on a connection that is closed afterwards.

        A standby has no rows of unlogged tables (PostgreSQL manual, "CREATE TABLE").
        """
        try:
            return await opened.rows(statement, values, seconds)
        except psycopg.errors.FeatureNotSupported:
            return []
        finally:
            opened.broken = True

    def _give_back(self, borrowed: Connection, is_search: bool) -> None:
        if is_search and borrowed.timed_out:
            cancelling = asyncio.get_running_loop().create_task(borrowed.cancel())
            self._cancelling.add(cancelling)
            cancelling.add_done_callback(self._cancelling.discard)
        elif borrowed.broken or borrowed.unreplicated or self._is_closed:
            borrowed.close()
        else:
            self._idle.append(borrowed)

    def _examine(
        self, error: psycopg.Error, borrowed: Connection, durable: bool, is_search: bool
    ) -> None:
        """Raise _Unavailable if an error means that the server is unavailable.

        Raises errors.ServiceUnavailable if it only means that a search timed out.
        """
        if is_search and borrowed.timed_out:
            self.observer.count("searches cut")
            raise errors.ServiceUnavailable(_TOO_SLOW) from error
        if borrowed.timed_out:
            self.observer.count("cut")
        if not borrowed.broken and (verdict := retry.partition_verdict(error)) is not None:
            is_unknown = verdict is Verdict.UNKNOWN
            raise _Unavailable(error, unknown=is_unknown, is_partition=True) from error
        verdict = retry.classify(error.sqlstate, broken=borrowed.broken)
        is_unavailable = verdict in (Verdict.UNAVAILABLE, Verdict.UNKNOWN)
        if is_unavailable or error.sqlstate in retry.STALE_SESSION:
            # The other connections are in the same state.
            borrowed.broken = True
            self._discard_idle()
        if not is_unavailable:
            return
        self.availability.mark_unavailable(error)
        if borrowed.timed_out and durable:
            self.standbys.mark_unavailable(error)
        unknown = verdict is Verdict.UNKNOWN and borrowed.may_have_run
        raise _Unavailable(error, unknown=unknown) from error

    def _take_idle(self) -> Connection | None:
        while self._idle:
            idle = self._idle.pop()
            if not idle.broken:
                return idle
            idle.close()
        return None

    async def _open(self, **others: str) -> Connection:
        try:
            opened = await Connection.open(self._parameters | others)
        except psycopg.Error as error:
            self.availability.mark_unavailable(error)
            raise _Unavailable(error, unknown=False) from error
        # Only now: what is read while the connection opens may come from another server.
        self.generation += 1
        self.address = opened.address
        return opened

    def _discard_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _probe(self) -> None:
        if await self._probed(_READ_ONLY) != ("off",):
            raise psycopg.errors.ReadOnlySqlTransaction("the server is read-only")

    async def _probe_standbys(self) -> None:
        await self.availability.wait_until_available()
        if await self._probed(_STANDBYS) != ("enough",):
            raise psycopg.OperationalError("too few standbys are connected")

    async def _probe_tables(self) -> None:
        try:
            session, seconds = await self._probed(TABLE_LOCK)
        except Exception as error:  # noqa: BLE001 - logged, whatever it is.
            self.observer.forget("table lock")
            # Do not delay all requests when it is unknown whether a table is locked.
            log.warning("cannot look for locked tables", error=" ".join(str(error).split()))
            return
        self.observer.forget("table lock")
        if session is not None:
            self.observer.show("table lock", seconds or 0.0, (session,))
            raise psycopg.errors.LockNotAvailable(session)

    async def _probed(self, statement: Statement) -> tuple[Any, ...]:
        probing = await Connection.open(self._parameters)
        try:
            (row,) = await probing.rows(statement, (), self._seconds)
            return row
        finally:
            probing.close()
