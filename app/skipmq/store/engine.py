"""The pool of connections, what happens when the database goes away, and errors of SQS for its own.

A statement whose connection broke may have been done or not. It is run again, as soon as there is a
database to write to, where that does no harm; what a request waits for that is bounded.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import psycopg
import sqlalchemy
import structlog
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.exc import DBAPIError

from skipmq import errors
from skipmq.store.gate import Gate, Party
from skipmq.store.outage import Observer, Outage, Unobserved
from skipmq.store.session import Session, WatchedConnection
from skipmq.store.statement import Rows, Statement
from skipmq.store.watchdog import Watchdog

log = structlog.get_logger()

# A serialization failure, a deadlock, and a plan made before a migration changed a function.
_STALE_PLAN = "0A000"
# A prepared statement that the connection no longer has.
_FORGOTTEN = "26000"
_FORGETFUL = {_STALE_PLAN, _FORGOTTEN}
_AGAIN = {"40001", "40P01"} | _FORGETFUL
# A server that was demoted answers reads and refuses writes.
_READ_ONLY = "25006"
# Refused before anything was done: read only, starting or stopping, too many connections.
_REFUSED = {_READ_ONLY, "57P03", "53300"}
# The server is stopping, or one of its processes crashed: perhaps just after the commit.
_STOPPED = {"57P01", "57P02"}
_GONE = _REFUSED | _STOPPED
# Somebody's open transaction has what is wanted, for longer than a request should wait.
_LOCKED = "55P03"
_LOCK_TIMEOUT = "-c lock_timeout=1s"
# Python reckons with the clock on the wall: that of no other zone can be reckoned with.
_UTC = "-c timezone=UTC"
_KEEPALIVE = {
    "connect_timeout": 2,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_TRIES = 3


class _Away(Exception):  # noqa: N818 - caught in this file.
    """The database could not be worked with; `unknown` tells whether the statement may be done."""

    def __init__(self, error: Exception, *, unknown: bool) -> None:
        super().__init__(error)
        self.error = error
        self.unknown = unknown


class _OnBehalf(threading.local):
    """For whom a thread is at work, and until when it may wait for a database.

    None is a party too: what concerns no queue, and upkeep.
    """

    party: Party = None
    deadline: float | None = None


class Database:
    """A pool of connections to one database, or to the servers of one cluster, safe for threads.

    Every statement is a transaction of its own. `patience` is how long a request waits for a
    connection, `failover` how long for a database to write to, `deadline` how long a statement may
    take, all in seconds. `application_name` shows in pg_stat_activity.
    """

    def __init__(  # noqa: PLR0913 - all but the first have defaults.
        self,
        url: str,
        *,
        size: int,
        patience: float = 10.0,
        failover: float = 0.0,
        deadline: float = 60.0,
        application_name: str = "skipmq",
        observer: Observer | None = None,
    ) -> None:
        self._parameters = _parameters(url, application_name)
        self.last_answer = monotonic()
        # Grows with every connection: what one server said may not hold on the next.
        self.generation = 0
        self._failover = failover
        self._observer = observer or Unobserved()
        self.outage = Outage("database", self._probe, self._observer)
        # While it lasts, what needs a standby's acknowledgement waits, and nothing else.
        self.stall = Outage("standbys", self._probe_standbys, self._observer)
        self._watchdog = Watchdog(deadline)
        self.gate = Gate(size, patience)
        self._on_behalf = _OnBehalf()
        self._engine = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
            pool_size=size,
            max_overflow=0,
            pool_timeout=0,  # The gate lets no more in than there are connections.
            pool_reset_on_return=None,
            use_native_hstore=False,
        )

    def session(self) -> Session:
        """Return a new connection outside the pool.

        Raises psycopg.OperationalError when the database is away.
        """
        return Session(self._open(), self._watchdog, self.outage)

    def _open(self) -> WatchedConnection:
        return WatchedConnection.connect(autocommit=True, prepare_threshold=1, **self._parameters)

    def _connect(self) -> WatchedConnection:
        connection = self._open()
        # Not before: what is learned while this one is on its way may be of another server.
        self.generation += 1
        return connection

    def rows(
        self,
        statement: str | Statement,
        parameters: Sequence[Any] = (),
        again: Sequence[Any] | None = None,
        *,
        durable: bool = False,
    ) -> Rows:
        """Run one query and return its rows, through a failover if there is time.

        It must do no harm to run it again after it may have been done: with `again` instead of the
        parameters, where they are given. `durable` is for what waits for a standby.

        Raises the SqsError that the statement's SQLSTATE stands for, errors.ServiceUnavailable when
        the database is away or all connections stay busy, errors.OutcomeUnknown when it is away and
        may have done it, errors.Locked when another transaction keeps a lock.
        """
        return self._rows(statement, parameters, parameters if again is None else again, durable)

    def rows_once(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one query that must not be run again once it may have been done; return its rows.

        Raises as `rows` does.
        """
        return self._rows(statement, parameters, None, durable=False)

    @contextmanager
    def on_behalf_of(self, party: Party, patience: float | None = None) -> Iterator[None]:
        """Have this thread's statements take their turn with those of a party, in the block.

        All of them together wait `patience` seconds for a database (None: as long as any does);
        the block is entered when there is one, or the time is over.
        """
        mine = self._on_behalf
        before = mine.party, mine.deadline
        mine.party = party
        if patience is not None or mine.deadline is None:
            mine.deadline = monotonic() + (self._failover if patience is None else patience)
        try:
            if self.outage.is_on:
                self.outage.wait(mine.deadline)
            yield
        finally:
            mine.party, mine.deadline = before

    def deadline(self) -> float:
        """Return until when this thread may wait for a database, as a time of time.monotonic."""
        return self._on_behalf.deadline or monotonic() + self._failover

    def stop(self) -> None:
        """Let nobody wait for a database any more."""
        self.outage.stop()
        self.stall.stop()

    def close(self) -> None:
        """Close all idle connections."""
        self.stop()
        self._engine.dispose()

    def _rows(
        self,
        statement: str | Statement,
        parameters: Sequence[Any],
        again: Sequence[Any] | None,
        durable: bool,
    ) -> Rows:
        deadline = self.deadline()
        tries, unknown = 0, False
        while True:
            try:
                rows = self._run(statement, again if again and unknown else parameters, durable)
            except _Away as away:
                unknown = unknown or away.unknown
                if (away.unknown and again is None) or not self._wait(deadline, durable):
                    self._give_up(away.error, unknown)
                self._observer.count("retried")
            except psycopg.Error as error:
                if error.sqlstate == _LOCKED and unknown and monotonic() < deadline:
                    continue  # Very likely by the try before, which waits for its standby.
                tries += 1
                if error.sqlstate not in _AGAIN:
                    raise self._translated(error) from error
                if tries >= _TRIES:
                    raise errors.ServiceUnavailable from error
            else:
                return rows

    def _wait(self, deadline: float, durable: bool) -> bool:
        there = self.outage.wait(deadline) and (not durable or self.stall.wait(deadline))
        return there and monotonic() < deadline

    def _give_up(self, error: Exception, unknown: bool) -> None:
        if unknown:
            self._observer.count("unknown")
            raise errors.OutcomeUnknown from error
        raise errors.ServiceUnavailable from error

    def _run(
        self,
        statement: str | Statement,
        parameters: Sequence[Any],
        durable: bool,
    ) -> Rows:
        party = self._on_behalf.party
        self.gate.enter(party)
        try:
            if self.outage.is_on or (durable and self.stall.is_on):
                raise _Away(errors.ServiceUnavailable(), unknown=False)
            pooled = self._borrow()
            try:
                return self._run_on(pooled, statement, parameters, durable)
            finally:
                pooled.close()
        finally:
            self.gate.leave(party)

    def _run_on(
        self,
        pooled: sqlalchemy.PoolProxiedConnection,
        statement: str | Statement,
        parameters: Sequence[Any],
        durable: bool,
    ) -> Rows:
        driver = pooled.driver_connection
        assert isinstance(driver, WatchedConnection)
        rows: Rows
        cut = False
        self._watchdog.begin(driver)
        try:
            try:
                if isinstance(statement, str):
                    rows = driver.execute(statement, parameters).fetchall()
                else:
                    rows = statement.run(driver, parameters)
            finally:
                cut = self._watchdog.end(driver)
                if cut:
                    pooled.invalidate()
        except psycopg.Error as error:
            broken = cut or driver.broken
            if not cut and (broken or error.sqlstate in _GONE | _FORGETFUL):
                pooled.invalidate()
            self._examine(error, broken, cut=cut, durable=durable)
            raise
        if driver.unreplicated:
            # Somebody cancelled the wait for a standby: it is done here, and may yet be lost.
            pooled.invalidate()
            raise _Away(errors.OutcomeUnknown(), unknown=True)
        self.last_answer = monotonic()
        return rows

    def _examine(self, error: psycopg.Error, broken: bool, *, cut: bool, durable: bool) -> None:
        """Raise _Away where an error says that this server cannot be worked with."""
        if cut:
            self._observer.count("cut")
        if broken or error.sqlstate in _GONE | _FORGETFUL:
            # The others of the pool went the same way: do not meet them one by one.
            self._engine.dispose()
        if not broken and error.sqlstate not in _GONE:
            return
        self.outage.begin(error)
        if cut and durable:
            self.stall.begin(error)
        raise _Away(error, unknown=broken or error.sqlstate in _STOPPED) from error

    def _translated(self, error: psycopg.Error) -> Exception:
        known = errors.BY_SQLSTATE.get(error.sqlstate or "")
        if known is not None:
            return known(error.diag.message_primary)
        if error.sqlstate == _LOCKED:
            return errors.Locked()
        if isinstance(error, psycopg.DataError):
            return errors.InvalidParameterValueException("A parameter's value cannot be stored.")
        if isinstance(error, psycopg.OperationalError):
            log.warning("the database refuses", error=" ".join(str(error).split()))
            return errors.ServiceUnavailable()
        return error

    def _borrow(self) -> sqlalchemy.PoolProxiedConnection:
        try:
            return self._engine.raw_connection()
        except (DBAPIError, psycopg.Error) as error:
            self.outage.begin(error)
            raise _Away(error, unknown=False) from error

    def _probe(self) -> None:
        with self._open() as connection:
            self._ask(connection, "select", "show transaction_read_only", "off")

    def _probe_standbys(self) -> None:
        self.outage.outlast()
        with self._open() as connection:
            self._ask(
                connection,
                "standbys that acknowledge",
                "select case when connected < required then 'too few' else 'enough' end"
                " from skipmq.replication()",
                "enough",
            )

    def _ask(self, connection: WatchedConnection, what: str, query: str, wanted: str) -> None:
        self._watchdog.begin(connection)
        try:
            row = connection.execute(query).fetchone()
        finally:
            self._watchdog.end(connection)
        if row is None or row[0] != wanted:
            raise psycopg.OperationalError(f"{what}: {row and row[0]}")


def _parameters(url: str, application_name: str) -> dict[str, Any]:
    given = conninfo_to_dict(url)
    several = "," in str(given.get("host", "")) or "," in str(given.get("port", ""))
    return {
        **_KEEPALIVE,
        **({"target_session_attrs": "read-write"} if several else {}),
        "application_name": application_name,
        **given,
        "options": f"{_LOCK_TIMEOUT} {given.get('options', '')} {_UTC}",
        # What statement.py writes, whatever the environment or the role say.
        "client_encoding": "UTF8",
    }
