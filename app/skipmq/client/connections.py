"""Connections of a worker: one for its claims, which reconnects, and those of transactions.

A handler's transaction has the settings of its role. Those of the worker's own statements are
pinned, and each has a deadline: a frozen server acknowledges what it is sent and answers nothing.
"""

import asyncio
import logging
import os
import re
import select
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic, sleep
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from skipmq.client.errors import ClientError, sqlstate
from skipmq.client.source import pause
from skipmq.database import pins

log = logging.getLogger(__package__)

Rows = list[tuple[Any, ...]]
Connection = psycopg.Connection[tuple[Any, ...]]
AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]
_Open = TypeVar("_Open", Connection, AsyncConnection)

# A URL may override these. A primary that stops answering is noticed within seconds.
_DEFAULTS = {
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "fallback_application_name": "skipmq work",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "target_session_attrs": "read-write",
    "tcp_user_timeout": "20000",
}
# A worker's connection waits for no transaction of another for long: it serves all its queues.
_LIMITS = pins.UNLIMITED | {"lock_timeout": "2s"}
# As SQLAlchemy writes a URL, with the driver.
_DRIVER = re.compile(r"^(postgres(?:ql)?)\+[a-z0-9]+:")
# Not operational for psycopg: a server that only reads since a failover, and a
# queue that was purged in that instant.
_TRANSIENT = {"25006", "SQ005"}
# The shortest deadline of a statement.
_MIN_SECONDS = 5.0


class Deadlines:
    """Closes connections whose statements take longer than `seconds`, 5 at least.

    Threads share one that watches them: a timer for each would cost as much as a statement does.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = max(seconds, _MIN_SECONDS)
        # Times and calls, in the order of times: all have the same number of seconds.
        self._calls: dict[object, tuple[float, Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._is_watched = False

    @contextmanager
    def __call__(
        self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
    ) -> Iterator[None]:
        """Close the connection where the block, a statement of the worker's own, takes too long.

        It is not cancelled, which a frozen server would not answer either. Raises
        psycopg.OperationalError then.
        """
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = True
            with (
                suppress(OSError, psycopg.Error),
                socket.socket(fileno=os.dup(connection.fileno())) as s,
            ):
                s.shutdown(socket.SHUT_RDWR)

        if isinstance(connection, psycopg.AsyncConnection):
            cancel = asyncio.get_running_loop().call_later(self._seconds, end).cancel
        else:
            cancel = self._call_later(end)
        try:
            yield
        except psycopg.OperationalError as error:
            if is_over:
                text = f"the server did not answer within {self._seconds:g} s"
                raise psycopg.OperationalError(text) from error
            raise
        finally:
            cancel()

    def _call_later(self, call: Callable[[], None]) -> Callable[[], None]:
        """Schedule a call after the seconds; return a function that cancels it."""
        key = object()
        with self._lock:
            if not self._is_watched:
                threading.Thread(target=self._watch, daemon=True).start()
                self._is_watched = True
            self._calls[key] = (monotonic() + self._seconds, call)

        def cancel() -> None:
            with self._lock:
                self._calls.pop(key, None)

        return cancel

    def _watch(self) -> None:
        """Make the calls that are due, until none is scheduled."""
        left = self._seconds
        while True:
            sleep(left)
            with self._lock:
                while self._calls:
                    key, (due, call) = next(iter(self._calls.items()))
                    if (left := due - monotonic()) > 0:
                        break
                    del self._calls[key]
                    call()
                else:
                    self._is_watched = False
                    return


def conninfo(dsn: str) -> str:
    """Return a URL with the defaults of a worker; raise ClientError for what is none."""
    dsn = _DRIVER.sub(r"\1:", dsn)
    try:
        return make_conninfo("", **(_DEFAULTS | conninfo_to_dict(dsn)))
    except psycopg.Error as error:
        # The text of libpq may quote the URL, with a password.
        reason = "" if dsn in str(error) else f" ({str(error).strip()})"
        raise ClientError(
            f"the URL of the database cannot be read{reason}: write it as"
            " postgresql://ROLE:PASSWORD@HOST/DATABASE, or the broker's as https://HOST:PORT"
        ) from error


class Connections:
    """Connections for transactions of handlers: each has its own, and leaves it to the next."""

    def __init__(self, dsn: str) -> None:
        self._conninfo = conninfo(dsn)
        given = conninfo_to_dict(self._conninfo)
        # Of each statement of the worker's own: as long as a connection attempt.
        self.deadline = Deadlines(float(given.get("connect_timeout") or 0))
        self._pinned: str | None = make_conninfo("", **pins.pinned(given, _LIMITS))
        self._idle: list[Connection] = []
        self._async_idle: list[AsyncConnection] = []
        self._is_closed = False

    @contextmanager
    def transaction(self, end: Callable[[Connection], None]) -> Iterator[Connection]:
        """Yield a connection in a transaction, which `end` ends within a deadline; for threads."""
        connection = _taken(self._idle) or psycopg.connect(
            self._conninfo, autocommit=True, prepare_threshold=None
        )
        try:
            with connection.transaction():
                yield connection
                with self.deadline(connection):
                    end(connection)
        finally:
            if self._is_used_up(connection):
                connection.close()
            else:
                self._idle.append(connection)

    @asynccontextmanager
    async def atransaction(
        self, end: Callable[[AsyncConnection], Awaitable[None]]
    ) -> AsyncIterator[AsyncConnection]:
        """Do what `transaction` does, for coroutines."""
        connection = _taken(self._async_idle) or await _connect(self._conninfo)
        try:
            async with connection.transaction():
                yield connection
                with self.deadline(connection):
                    await end(connection)
        finally:
            if self._is_used_up(connection):
                await connection.close()
            else:
                self._async_idle.append(connection)

    async def connect(self) -> AsyncConnection:
        """Open a connection for statements of the worker's own."""
        if self._pinned is None:
            return await _connect(self._conninfo)
        try:
            connection = await _connect(self._pinned)
        except psycopg.OperationalError as error:
            if not pins.is_refused(error):
                raise
            # A pooler, whose sessions are others' too: they keep their settings.
            self._pinned = None
            return await _connect(self._conninfo)
        if connection.info.server_version >= pins.TRANSACTION_TIMEOUT:
            try:
                with self.deadline(connection):
                    await connection.execute(
                        pins.LIFT_TRANSACTION_TIMEOUT, (connection.info.backend_pid,)
                    )
            except BaseException:
                # A worker that ends cancels it, too.
                await connection.close()
                raise
        return connection

    async def close(self) -> None:
        """Close the connections that are not in use, and the others after their use."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()
        while self._async_idle:
            await self._async_idle.pop().close()

    def _is_used_up(self, connection: Connection | AsyncConnection) -> bool:
        return (
            self._is_closed
            or connection.closed
            or connection.info.transaction_status != TransactionStatus.IDLE
        )


async def _connect(conninfo: str) -> AsyncConnection:
    # Not prepared: in transaction mode a pooler runs each statement in another session.
    return await AsyncConnection.connect(conninfo, autocommit=True, prepare_threshold=None)


def _taken(idle: list[_Open]) -> _Open | None:
    """Take a connection that the server has not closed meanwhile."""
    while True:
        try:
            connection = idle.pop()
        except IndexError:
            return None
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLIN)
        if not poller.poll(0):
            return connection
        # Whatever the server sent to an idle connection, a new one is as good.
        connection.pgconn.finish()


class Link:
    """The connection for what commits by itself: one statement after the other.

    Each is safe to repeat, and is repeated until the database is available.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._connection: AsyncConnection | None = None
        self._lock = asyncio.Lock()
        self.is_open = False

    async def open(self) -> None:
        """Connect; raise ClientError where that fails, possibly caused by a mistake."""
        try:
            await self._opened()
        except psycopg.Error as error:
            text = " ".join(str(error).split())
            raise ClientError(f"the database cannot be reached: {text}") from error

    async def run(self, make: Callable[[], tuple[str, Sequence[Any]] | None]) -> Rows:
        """Run a statement and return its rows.

        It is made, with its parameters, when its turn has come; None makes it run nothing. Raises
        psycopg.Error for what is not transient.
        """
        tries = 0
        while True:
            try:
                # Others take their turn between two tries: a row that is locked is one queue's.
                async with self._lock:
                    made = make()
                    if made is None:
                        return []
                    connection = await self._opened()
                    with self._connections.deadline(connection):
                        return await (await connection.execute(*made)).fetchall()
            except psycopg.Error as error:
                if not _is_transient(error):
                    raise
                await self._pause(error, tries)
                tries += 1

    async def close(self) -> None:
        """Close it."""
        self.is_open = False
        if self._connection is not None:
            await self._connection.close()

    async def _opened(self) -> AsyncConnection:
        if self._connection is None or self._connection.closed:
            self._connection = await self._connections.connect()
            self.is_open = True
        return self._connection

    async def _pause(self, error: psycopg.Error, tries: int) -> None:
        if sqlstate(error) == "25006":
            await self.close()
        self.is_open = self._connection is not None and not self._connection.closed
        log.warning("the database is unavailable, trying again: %s", " ".join(str(error).split()))
        await pause(tries)


def _is_transient(error: psycopg.Error) -> bool:
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return lost or sqlstate(error) in _TRANSIENT
