"""Statements on a few connections of one database, through a failover where there is time.

A statement whose connection broke may have been done or not. It is run again, as soon as there is a
database to write to, where that does no harm; what a request waits for that is bounded.

The pool is a list: whoever has a permit of the fair semaphore finds a connection in it or opens
one. SQLAlchemy's asyncio engine takes 28 to 47 µs of the processor for a checkout from its list.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic, perf_counter

import psycopg
import structlog

from skipmq import errors
from skipmq.database import connection, retry
from skipmq.database.availability import Availability, NoObserver, Observer
from skipmq.database.connection import Connection
from skipmq.database.fairness import FairSemaphore, Tenant
from skipmq.database.listener import Session
from skipmq.database.retry import Verdict
from skipmq.database.statement import Rows, Search, Statement

log = structlog.get_logger()

_READ_ONLY = Statement("show transaction_read_only")
_STANDBYS = Statement(
    "select case when connected < required then 'too few' else 'enough' end"
    " from skipmq.replication()"
)
_TABLE_LOCK = Statement(
    "select session, extract(epoch from clock_timestamp() - began)::float8 from skipmq.table_lock()"
)
_TRIES = 3
# Of max_connections, reserved connections, and the limits of a database or role (PostgreSQL's
# src/backend/storage/lmgr/proc.c and src/backend/utils/init/postinit.c).
_NO_SLOT = ("too many clients already", "remaining connection slots", "too many connections for")
_TOO_SLOW = "The database did not answer in time; try again."
# Seconds that a search gets whose deadline is over.
_LEAST = 0.1
Parameters = Sequence[object]


class _Unavailable(Exception):  # noqa: N818 - caught in this file.
    """The database could not be worked with; `unknown` tells whether the statement may be done."""

    def __init__(self, error: Exception, *, unknown: bool) -> None:
        super().__init__(error)
        self.error = error
        self.unknown = unknown


def _is_final(error: Exception) -> bool:
    """Return whether an error holds for an earlier try too, whose outcome is not known."""
    return isinstance(error, errors.SqsError) and not isinstance(
        error, (errors.ServiceUnavailable, errors.Locked)
    )


def is_read_only(error: Exception) -> bool:
    """Tell whether an error says that a server is there and takes no writes."""
    # Of several servers libpq says it in words (PostgreSQL manual, 34.1.2 target_session_attrs).
    return isinstance(error, psycopg.errors.ReadOnlySqlTransaction) or (
        isinstance(error, psycopg.OperationalError) and "session is read-only" in str(error)
    )


def has_no_slot(error: Exception) -> bool:
    """Return whether an error says that a server has no connection left for this role.

    libpq gives no SQLSTATE for a connection that is refused, only the server's text; in another
    language than English the error counts as a server that cannot be reached.
    """
    return isinstance(error, psycopg.errors.TooManyConnections) or (
        isinstance(error, psycopg.OperationalError) and any(text in str(error) for text in _NO_SLOT)
    )


class Database:
    """A pool of connections to one database, or to the servers of one cluster; for one loop.

    Every statement is a transaction of its own. `connection_wait` is how long a statement waits for
    a connection, `seconds` how long it may take. `application_name` shows in pg_stat_activity.
    """

    def __init__(  # noqa: PLR0913 - all but the first have defaults.
        self,
        url: str,
        *,
        size: int,
        connection_wait: float = 10.0,
        seconds: float = 60.0,
        application_name: str = "skipmq",
        observer: Observer | None = None,
    ) -> None:
        self._parameters = connection.parameters(url, application_name)
        self._seconds = seconds
        # How long a statement that is run once may take, the wait for its connection included.
        self.longest_try = connection_wait + seconds
        self.observer = observer or NoObserver()
        self._idle: list[Connection] = []
        self._cancelling: set[asyncio.Task[None]] = set()
        self._permits = FairSemaphore(size, connection_wait)
        # Grows with every connection: what one server said may not hold on the next.
        self.generation = 0
        # Where the last connection that was opened leads.
        self.address = ""
        self._tell_hindered: Callable[[errors.Hindered], None] = lambda _: None
        self.availability = Availability("database", self._probe, self.observer)
        # While too few standbys answer, what needs their acknowledgement waits, and nothing else.
        self.standbys = Availability("standbys", self._probe_standbys, self.observer)
        # While another program locks a table, statements on queues wait, without a connection.
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

        `deadline` is until when it may wait for a database, as a time of time.monotonic, and until
        when a Search may take. It must do no harm to run it again after it may have been done, with
        `again` instead of the parameters where they are given, unless it is not `repeatable`.
        `durable` is for what waits for a standby; `may_be_done` for what was run before.

        Raises the SqsError that the statement's SQLSTATE stands for, errors.ServiceUnavailable when
        the database is unavailable or all connections stay busy, errors.OutcomeUnknown when it is
        unavailable and may have done it, errors.Locked when another transaction keeps a lock.
        """
        values = statement.bind(parameters)
        tries, unknown = 0, may_be_done
        is_parked = tenant is not None and self.tables.failure is not None and deadline
        if is_parked and not await self.tables.wait(deadline):
            raise errors.OutcomeUnknown if unknown else errors.TableLocked
        while True:
            try:
                return await self._run(statement, values, tenant, durable, deadline)
            except _Unavailable as lost:
                if lost.unknown and not unknown:
                    unknown = True
                    values = statement.bind(again or parameters)
                waits = statement.repeatable or not lost.unknown
                if not (waits and await self._found(deadline, durable)):
                    self._give_up(lost.error, unknown)
                self.observer.count("retried")
            except psycopg.Error as error:
                verdict = retry.classify(error.sqlstate, broken=False)
                tries += 1
                waits = verdict is Verdict.LOCKED and await self._unlocked(error, deadline)
                # Or very likely locked by the try before, which waits for its standby.
                waits = waits or (verdict is Verdict.LOCKED and unknown and monotonic() < deadline)
                if not waits and (verdict is not Verdict.AGAIN or tries >= _TRIES):
                    raise self._failed(error, verdict, unknown=unknown) from error

    def when_hindered(self, tell: Callable[[errors.Hindered], None]) -> None:
        """Call a function with every error that lasts until an operator acts."""
        self._tell_hindered = tell

    async def session(self, application_name: str = "") -> Session:
        """Return a new connection outside the pool, under a name of its own where one is given.

        Raises psycopg.OperationalError when the database is unavailable.
        """
        named = {"application_name": application_name} if application_name else {}
        return await Session.open(self._parameters | named, self._seconds, self.availability)

    def show(self) -> None:
        """Show the observer what the pool does now."""
        self.observer.show("connections", len(self._idle) + self._permits.held())
        self.observer.show("waiting for connections", self._permits.waiting())

    def stop(self) -> None:
        """Let nobody wait for a database any longer."""
        for each in (self.availability, self.standbys, self.tables):
            each.stop()

    def close(self) -> None:
        """Close all idle connections."""
        self.stop()
        self._discard_idle()

    async def _found(self, deadline: float, durable: bool) -> bool:
        """Wait until the statement may be tried again; tell whether it may."""
        found = await self.availability.wait(deadline)
        if found and durable:
            found = await self.standbys.wait(deadline)
        return found and monotonic() < deadline

    async def _unlocked(self, error: psycopg.Error, deadline: float) -> bool:
        """Wait until no other program locks a table; return whether one did that, and no longer."""
        if monotonic() >= deadline:
            return False
        was_locked, outages = self.tables.failure is not None, self.tables.outages
        self.tables.lose(error)
        found = await self.tables.wait(deadline)
        return found and (was_locked or self.tables.outages > outages)

    def _failed(self, error: psycopg.Error, verdict: Verdict, *, unknown: bool) -> Exception:
        """Return the error of a statement that is not tried again."""
        translated = retry.translated(error, verdict)
        if isinstance(translated, errors.Hindered):
            self._tell_hindered(translated)
        if unknown and not _is_final(translated):
            self.observer.count("unknown")
            return errors.OutcomeUnknown()
        if verdict is Verdict.LOCKED and self.tables.failure is not None:
            return errors.TableLocked()
        return translated

    def _give_up(self, error: Exception, unknown: bool) -> None:
        if unknown:
            self.observer.count("unknown")
            raise errors.OutcomeUnknown from error
        failure = self.availability.failure or error
        # Of several servers the primary may be full, and the others read-only.
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

        Raises _Unavailable, and psycopg.Error when the server refuses the statement.
        """
        is_search = isinstance(statement, Search)
        began = perf_counter()
        await self._permits.acquire(tenant)
        permitted = perf_counter()
        borrowed: Connection | None = None
        try:
            if self.availability.is_lost or (durable and self.standbys.is_lost):
                raise _Unavailable(errors.ServiceUnavailable(), unknown=False)
            borrowed = self._take_idle() or await self._open()
            seconds = self._seconds
            if is_search and deadline:
                seconds = min(seconds, max(deadline - monotonic(), _LEAST))
            rows = await borrowed.rows(statement, values, seconds)
            if borrowed.unreplicated:
                # It is done here, and may yet be lost.
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

    def _give_back(self, borrowed: Connection, is_search: bool) -> None:
        if is_search and borrowed.timed_out:
            cancelling = asyncio.get_running_loop().create_task(borrowed.cancel())
            self._cancelling.add(cancelling)
            cancelling.add_done_callback(self._cancelling.discard)
        elif borrowed.broken or borrowed.unreplicated:
            borrowed.close()
        else:
            self._idle.append(borrowed)

    def _examine(
        self, error: psycopg.Error, borrowed: Connection, durable: bool, is_search: bool
    ) -> None:
        """Raise _Unavailable where an error says that this server cannot be worked with.

        Raises errors.ServiceUnavailable where it only says that a search took long.
        """
        if is_search and borrowed.timed_out:
            self.observer.count("searches cut")
            raise errors.ServiceUnavailable(_TOO_SLOW) from error
        if borrowed.timed_out:
            self.observer.count("cut")
        verdict = retry.classify(error.sqlstate, broken=borrowed.broken)
        lost = verdict in (Verdict.UNAVAILABLE, Verdict.UNKNOWN)
        if lost or error.sqlstate in retry.FORGETFUL:
            # The others went the same way: do not meet them one by one.
            borrowed.broken = True
            self._discard_idle()
        if not lost:
            return
        self.availability.lose(error)
        if borrowed.timed_out and durable:
            self.standbys.lose(error)
        unknown = verdict is Verdict.UNKNOWN and borrowed.may_have_run
        raise _Unavailable(error, unknown=unknown) from error

    def _take_idle(self) -> Connection | None:
        while self._idle:
            idle = self._idle.pop()
            if not idle.broken:
                return idle
            idle.close()
        return None

    async def _open(self) -> Connection:
        try:
            opened = await Connection.open(self._parameters)
        except psycopg.Error as error:
            self.availability.lose(error)
            raise _Unavailable(error, unknown=False) from error
        # Not before: what is learned while this one is on its way may be of another server.
        self.generation += 1
        self.address = opened.address
        return opened

    def _discard_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _probe(self) -> None:
        if await self._ask(_READ_ONLY) != "off":
            raise psycopg.errors.ReadOnlySqlTransaction("the server is read-only")

    async def _probe_standbys(self) -> None:
        await self.availability.outlast()
        if await self._ask(_STANDBYS) != "enough":
            raise psycopg.OperationalError("too few standbys are connected")

    async def _probe_tables(self) -> None:
        self.observer.forget("table lock")
        try:
            ((session, seconds),) = await self._rows_of_probe(_TABLE_LOCK)
        except Exception as error:  # noqa: BLE001 - whatever it is.
            # Whether a table is locked is not known, and no reason to hold all requests up.
            log.warning("cannot look for locked tables", error=" ".join(str(error).split()))
            return
        if session is not None:
            self.observer.show("table lock", seconds or 0.0, (session,))
            raise psycopg.errors.LockNotAvailable(session)

    async def _ask(self, statement: Statement) -> object:
        ((answer,),) = await self._rows_of_probe(statement)
        return answer

    async def _rows_of_probe(self, statement: Statement) -> Rows:
        probing = await Connection.open(self._parameters)
        try:
            return await probing.rows(statement, (), self._seconds)
        finally:
            probing.close()
