"""A PostgreSQL session on the event loop: libpq in non-blocking mode, one statement at a time.

A node runs the same few statements all the time, so that what psycopg's cursors find out about
every parameter and result is wasted; libpq is called directly instead (PostgreSQL manual, 32.4
"Asynchronous Command Processing").
"""

import asyncio
import select
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Self

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from skipmq.database import address, pins, pooler
from skipmq.database.availability import Availability
from skipmq.database.statement import (
    BINARY,
    INT8_OID,
    TEXTS,
    TIME_OID,
    Rows,
    Statement,
    TimestampLoader,
)

# An operator can change lock_timeout in the URL. Each statement is planned once: where it unnests
# arrays, the plans for their elements seem cheaper than one for all, and planning costs more. None
# is compiled: that of a report over thousands of queues is expensive in estimate and quick to run.
LIMITS = pins.UNLIMITED | {
    "lock_timeout": "1s",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
_CANCEL_SECONDS = 2.0
# The function in the server's source that warns of a cancelled wait, whatever lc_messages is.
_SYNC_REP_WAIT = "SyncRepWaitForLSN"
_PID = Statement("select pg_backend_pid(), null")
_PID_WITHOUT_TIMEOUT = Statement(
    "select pg_backend_pid(), set_config('transaction_timeout', '0', false)"
)
# For a session of a pooler that ignores options.
_PIN = Statement(
    "select set_config(s.name, s.value, false) from unnest($1, $2) s (name, value)", TEXTS, TEXTS
)
_PID_SECONDS = 5.0
_DONE = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}


def parameters(url: str, application_name: str) -> dict[str, Any]:
    """Return a node's connection parameters from the URL of one or several servers.

    Raises address.AddressError.
    """
    given = address.parameters(url)
    several = "," in given.get("host", "") + given.get("port", "")
    own = {
        **pins.KEEPALIVE,
        "connect_timeout": "2",
        **({"target_session_attrs": "read-write"} if several else {}),
        "application_name": application_name,
        "options": "",
        **given,
    }
    return pins.pinned(own, LIMITS)


def _error(result: pq.abc.PGresult) -> psycopg.Error:
    """Return the error of a result without detail and context, which may quote message bodies."""
    error = error_from_result(result)
    if error.diag.message_primary:
        error.args = (error.diag.message_primary,)
    return error


def _first_error(results: Sequence[pq.abc.PGresult]) -> pq.abc.PGresult | None:
    """Return the first error among the results of a statement, or None.

    Rows and CommandComplete arrive before the commit, which may still fail, so that an error after
    them is the statement's (PostgreSQL manual, "Message Flow", "Extended Query"). Where several
    arrive, such as an error and then the end of the connection, the first has the cause.
    """
    return next((result for result in results if result.status not in _DONE), None)


class Connection:
    """A session in autocommit mode; for one loop, and one statement at a time.

    `broken`: no further statement can run; `timed_out`: because one took too long; `unreplicated`:
    the wait for a commit's acknowledgement by a standby was cancelled; `may_have_run`: the last
    statement was sent, and not only prepared.
    """

    def __init__(self, driver: psycopg.AsyncConnection[Any]) -> None:
        self._driver = driver
        self._pgconn = driver.pgconn
        self._pgconn.nonblocking = 1
        self._loop = asyncio.get_running_loop()
        # pgconn.socket raises once the connection is broken.
        self._descriptor = self._pgconn.socket
        self._socket = select.poll()
        self._socket.register(self._descriptor, select.POLLIN)
        self._result: asyncio.Future[pq.abc.PGresult] | None = None
        self._results: list[pq.abc.PGresult] = []
        # The seconds of the running statement, and the time of the loop at which they are over. The
        # timer stays set from statement to statement: to set one for each costs more.
        self._seconds = self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # The column loaders of each statement that has run.
        self._transformers: dict[Statement, Any] = {}
        self._prepared: set[Statement] = set()
        self.broken = self.timed_out = self.unreplicated = self.may_have_run = False
        driver.add_notice_handler(self._note)
        driver.adapters.register_loader("timestamptz", TimestampLoader)
        self._loop.add_reader(self._descriptor, self._readable)

    @classmethod
    async def open(cls, given: dict[str, Any]) -> Self:
        """Open a connection; raise psycopg.OperationalError."""
        opened = cls(await psycopg.AsyncConnection.connect(autocommit=True, **given))
        await opened._begin_session(given)
        return opened

    @property
    def address(self) -> str:
        """Return host and port of the connected server; the host may be a socket's folder."""
        info = self._driver.info
        return f"{info.host} port {info.port}"

    async def rows(
        self, statement: Statement, values: Sequence[bytes | None], seconds: float
    ) -> Rows:
        """Run a statement as a transaction of its own; return its rows once it is committed.

        Close the connection when the statement takes longer than `seconds`. It is not cancelled: a
        cancelled commit may be reported as done where no standby has it (PostgreSQL manual, 26.2.8
        "Synchronous Replication"). Raises psycopg.Error.
        """
        self.may_have_run = False
        pgconn, name, forms = self._pgconn, statement.name, statement.forms
        transformer = self._transformers.get(statement)
        if transformer is None:
            # Prepare on the second use only: many statements run once on a connection.
            self.may_have_run = True
            result = await self._ask(
                seconds,
                pgconn.send_query_params,
                statement.text,
                values,
                statement.oids,
                forms,
                BINARY,
            )
            transformer = self._transformers[statement] = Transformer(self._driver)
            transformer.set_pgresult(result)
            if statement.since_2000:
                # Load times as integers, which psycopg does in C.
                kinds = [result.ftype(column) for column in range(result.nfields)]
                loaded = [INT8_OID if kind == TIME_OID else kind for kind in kinds]
                transformer.set_loader_types(loaded, pq.Format.BINARY)
        else:
            if statement not in self._prepared:
                await self._prepare(statement, seconds)
                self._prepared.add(statement)
            self.may_have_run = True
            result = await self._ask(
                seconds, pgconn.send_query_prepared, name, values, forms, BINARY
            )
            transformer.set_pgresult(result, set_loaders=False)
        rows: Rows = transformer.load_rows(0, result.ntuples, tuple)
        # The next statement of its kind may be long in coming.
        transformer.set_pgresult(None, set_loaders=False)
        return rows

    async def _prepare(self, statement: Statement, seconds: float) -> None:
        arguments = self._pgconn.send_prepare, statement.name, statement.text, statement.oids
        try:
            await self._ask(seconds, *arguments)
        except psycopg.errors.DuplicatePreparedStatement:
            # A pooler gave this session to another client before, whose plan may be outdated.
            await self._ask(seconds, self._pgconn.send_query, b"deallocate " + statement.name)
            await self._ask(seconds, *arguments)

    async def cancel(self) -> None:
        """Cancel the running statement, which must only read, and close the connection."""
        try:
            with suppress(psycopg.Error):
                await self._driver.cancel_safe(timeout=_CANCEL_SECONDS)
        finally:
            self.close()

    async def _begin_session(self, given: dict[str, Any]) -> None:
        """Lift transaction_timeout, and pin the settings of a pooler's session.

        Close the connection and raise pooler.PoolerError where a pooler shares the session.
        """
        has_timeout = self._driver.info.server_version >= pins.TRANSACTION_TIMEOUT
        try:
            ((pid, _),) = await self.rows(
                _PID_WITHOUT_TIMEOUT if has_timeout else _PID, (), _PID_SECONDS
            )
            if pid != self._pgconn.backend_pid:
                await pooler.check(given)
                await self.rows(_PIN, _PIN.bind(pins.settings(LIMITS)), _PID_SECONDS)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._break()
        self._pgconn.finish()

    async def _ask(self, seconds: float, send: Any, *arguments: Any) -> pq.abc.PGresult:
        self._result = self._loop.create_future()
        self._seconds, self._due = seconds, self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._due:
            self._set_timer()
        try:
            send(*arguments)
            self._flush()
            result = await self._result
        except asyncio.CancelledError:
            # The next statement must not get this one's answer.
            self._break()
            raise
        except psycopg.OperationalError:
            self._break()
            raise
        finally:
            self._result = None
        if result.status not in _DONE:
            if self._pgconn.status == pq.ConnStatus.BAD:
                self._break()
            raise _error(result)
        return result

    def _flush(self) -> None:
        if self._pgconn.flush():
            self._loop.add_writer(self._descriptor, self._writable)

    def _writable(self) -> None:
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._descriptor)
        except psycopg.OperationalError as error:
            self._fail(error)

    def _readable(self) -> None:
        try:
            self._pgconn.consume_input()
            # libuv reports a socket's error once and then stops watching the socket: poll again,
            # or a statement whose data arrived before the error would wait for ever.
            while not (is_complete := self._take_results()) and self._socket.poll(0):
                self._pgconn.consume_input()
        except psycopg.OperationalError as error:
            self._fail(error)
            return
        if is_complete:
            results, self._results = self._results, []
            if self._result is not None and not self._result.done():
                self._result.set_result(_first_error(results) or results[0])

    def _take_results(self) -> bool:
        """Collect the results read so far; return whether ReadyForQuery has ended the answer."""
        pgconn = self._pgconn
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                return bool(self._results)
            self._results.append(result)
        return False

    def _fail(self, error: psycopg.OperationalError) -> None:
        """Fail the running statement with the server's error if it sent one, else with `error`.

        Rows that have arrived do not make it a success: the commit comes after them.
        """
        self._break()
        results, self._results = self._results, []
        if self._result is not None and not self._result.done():
            if (reason := _first_error(results)) is not None:
                self._result.set_result(reason)
            else:
                self._result.set_exception(error)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due, self._time_out)

    def _time_out(self) -> None:
        """Fail the running statement if it is due; a later one has moved the time."""
        self._timer = None
        if self._result is None or self._result.done():
            return
        if self._loop.time() < self._due:
            self._set_timer()
            return
        self.timed_out = True
        error = f"the server did not answer within {self._seconds:g} s"
        self._fail(psycopg.OperationalError(error))

    def _break(self) -> None:
        self.broken = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            self._descriptor = -1

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        # The wait for a standby was cancelled; the server reports the commit as a success.
        if notice.source_function == _SYNC_REP_WAIT:
            self.unreplicated = True


class Session:
    """A connection outside the pool, in autocommit mode; for one task."""

    def __init__(
        self, connection: psycopg.AsyncConnection[Any], seconds: float, availability: Availability
    ) -> None:
        self._connection = connection
        self._seconds = seconds
        self._availability = availability
        self._interruptions = availability.interruptions

    @classmethod
    async def open(
        cls, parameters: dict[str, Any], seconds: float, availability: Availability
    ) -> Self:
        """Open a session whose statements may take `seconds`; raise psycopg.OperationalError."""
        connection = await psycopg.AsyncConnection.connect(autocommit=True, **parameters)
        return cls(connection, seconds, availability)

    @property
    def is_current(self) -> bool:
        """Return whether the session is open and the database was not interrupted since.

        After an interruption the session may listen for ever to a server that hangs or was
        replaced.
        """
        return (
            not self._connection.closed and self._interruptions == self._availability.interruptions
        )

    async def execute(self, query: str, parameters: Sequence[Any] | None = None) -> None:
        """Run a query; close the session when it times out. Raises psycopg.Error."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._connection.execute(query, parameters)
        except TimeoutError:
            await self.close()
            raise psycopg.OperationalError("the server does not answer") from None

    async def notifications(self, seconds: float) -> AsyncIterator[str]:
        """Yield the payloads of notifications that arrive within `seconds`; raise psycopg.Error."""
        async for notification in self._connection.notifies(timeout=seconds):
            yield notification.payload

    async def close(self) -> None:
        """Close the session."""
        await self._connection.close()
