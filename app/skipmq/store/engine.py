"""The pool of connections, and how a failure of the database becomes an SQS error."""

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
from skipmq.store.statement import Rows, Statement

log = structlog.get_logger()

# A serialization failure, a deadlock, and a plan made before a migration changed a function.
_STALE_PLAN = "0A000"
# A prepared statement that the connection no longer has.
_FORGOTTEN = "26000"
_AGAIN = {"40001", "40P01", _STALE_PLAN, _FORGOTTEN}
# A server that was demoted answers reads and refuses writes.
_READ_ONLY = "25006"
# Somebody's open transaction has what is wanted, for longer than a request should wait.
_LOCKED = "55P03"
_LOCK_TIMEOUT = "-c lock_timeout=1s"
# Python reckons with the clock on the wall: that of no other zone can be reckoned with.
_UTC = "-c timezone=UTC"
_KEEPALIVE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_TRIES = 3


class _OnBehalf(threading.local):
    """For whom a thread is at work; None is a party too: what concerns no queue, and upkeep."""

    party: Party = None


class Database:
    """A pool of connections to one database, safe for threads.

    Every statement is a transaction of its own. `application_name` shows in pg_stat_activity.
    """

    def __init__(
        self, url: str, *, size: int, patience: float = 10.0, application_name: str = "skipmq"
    ) -> None:
        given = conninfo_to_dict(url)
        self._parameters: dict[str, Any] = {
            **_KEEPALIVE,
            "application_name": application_name,
            **given,
            "options": f"{_LOCK_TIMEOUT} {given.get('options', '')} {_UTC}",
            # What statement.py writes, whatever the environment or the role say.
            "client_encoding": "UTF8",
        }
        self.last_answer = monotonic()
        # Grows with every connection: what one server said may not hold on the next.
        self.generation = 0
        self._away = False
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

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new connection outside the pool, in autocommit mode.

        Raises psycopg.OperationalError when the database is away.
        """
        return psycopg.connect(autocommit=True, prepare_threshold=1, **self._parameters)

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self.connect()
        # Not before: what is learned while this one is on its way may be of another server.
        self.generation += 1
        return connection

    def rows(self, statement: str | Statement, parameters: Sequence[Any] = ()) -> Rows:
        """Run one query and return its rows.

        Raises the SqsError that the statement's SQLSTATE stands for, or errors.ServiceUnavailable
        when the database is away or all connections stay busy, or errors.Locked when another
        transaction keeps a lock.
        """
        for _ in range(_TRIES):
            try:
                return self._run(statement, parameters)
            except psycopg.Error as error:
                if error.sqlstate in _AGAIN:
                    continue
                raise self._translated(error) from error
        raise errors.ServiceUnavailable

    @contextmanager
    def on_behalf_of(self, party: Party) -> Iterator[None]:
        """Have this thread's statements take their turn with those of a party, in the block."""
        before = self._on_behalf.party
        self._on_behalf.party = party
        try:
            yield
        finally:
            self._on_behalf.party = before

    def close(self) -> None:
        """Close all idle connections."""
        self._engine.dispose()

    def _run(self, statement: str | Statement, parameters: Sequence[Any]) -> Rows:
        party = self._on_behalf.party
        self.gate.enter(party)
        try:
            return self._run_with_permit(statement, parameters)
        finally:
            self.gate.leave(party)

    def _run_with_permit(self, statement: str | Statement, parameters: Sequence[Any]) -> Rows:
        pooled = self._borrow()
        try:
            driver = pooled.driver_connection
            assert driver is not None
            rows: Rows
            if isinstance(statement, str):
                rows = driver.execute(statement, parameters).fetchall()
            else:
                rows = statement.run(driver, parameters)
        except psycopg.Error as error:
            broken = pooled.driver_connection is None or pooled.driver_connection.broken
            if broken or error.sqlstate in (_READ_ONLY, _STALE_PLAN, _FORGOTTEN):
                # The others of the pool went the same way: do not meet them one by one.
                pooled.invalidate()
                self._engine.dispose()
            raise
        else:
            self.last_answer = monotonic()
            if self._away:
                self._away = False
                log.warning("database back")
            return rows
        finally:
            pooled.close()

    def _translated(self, error: psycopg.Error) -> Exception:
        known = errors.BY_SQLSTATE.get(error.sqlstate or "")
        if known is not None:
            return known(error.diag.message_primary)
        if error.sqlstate == _LOCKED:
            return errors.Locked()
        if isinstance(error, psycopg.DataError):
            return errors.InvalidParameterValueException("A parameter's value cannot be stored.")
        if isinstance(error, psycopg.OperationalError) or error.sqlstate == _READ_ONLY:
            self._note_absence(error)
            return errors.ServiceUnavailable()
        return error

    def _note_absence(self, error: Exception) -> None:
        # Once an outage: a line for each request would bury it.
        if not self._away:
            self._away = True
            log.warning("database away", error=" ".join(str(error).split()))

    def _borrow(self) -> sqlalchemy.PoolProxiedConnection:
        try:
            return self._engine.raw_connection()
        except DBAPIError as error:  # While SQLAlchemy makes the server's acquaintance.
            self._note_absence(error)
            raise errors.ServiceUnavailable from error
