"""Recognise a connection pooler that does not keep a server's session for one client.

In PgBouncer's modes `transaction` and `statement` a prepared statement and a LISTEN belong to
whatever client has the session next, so that a node cannot work there.
"""

import asyncio
from time import monotonic
from typing import Any, TypeAlias

import psycopg

_Connection: TypeAlias = psycopg.AsyncConnection[Any]

_PID = "select pg_backend_pid()"
# A pooler gives out the session that was returned last, or all sessions in turn.
_ROUNDS = 12
# Seconds in which a pooler has given a session if it has one.
_TIMEOUT = 5.0
# How long a pooler that keeps sessions is not asked again, in seconds: it gives two to each check.
_KNOWN_FOR = 5.0
_known_until: dict[str, float] = {}
_PLACE = "a connection pooler stands before PostgreSQL and"
_DIRECT = "name PostgreSQL itself in SKIPMQ_DATABASE_URL, or set"
_SHARES = (
    f"{_PLACE} gives one session to several clients (PgBouncer's pool_mode transaction or"
    f" statement), where prepared statements and LISTEN fail: {_DIRECT} pool_mode = session"
)
_REFUSES_OPTIONS = (
    f"{_PLACE} refuses the settings of nodes' sessions: {_DIRECT} in PgBouncer"
    " ignore_startup_parameters = extra_float_digits, options, and do what deploy/README.md says"
    " of it"
)


class PoolerError(psycopg.OperationalError):
    """A node cannot work behind this pooler; the message says what to do."""


async def check(given: dict[str, Any]) -> None:
    """Raise PoolerError when a pooler where these parameters lead does not keep sessions.

    That one stands there is known from the number of the server's process: a pooler gives its
    clients another. Raises psycopg.OperationalError when the server is unavailable.
    """
    place = repr(sorted(given.items()))
    if _known_until.get(place, 0.0) > monotonic():
        return
    async with await _connect(given) as first:
        if await _is_shared(first, given):
            raise PoolerError(_SHARES)
    _known_until[place] = monotonic() + _KNOWN_FOR


async def check_options(given: dict[str, Any]) -> None:
    """Raise PoolerError when a pooler refuses the `options` in these parameters."""
    try:
        await (await _connect(given)).close()
    except psycopg.OperationalError as error:
        if "unsupported startup parameter" in str(error):
            raise PoolerError(_REFUSES_OPTIONS) from error
        raise


async def _is_shared(first: _Connection, given: dict[str, Any]) -> bool:
    try:
        async with asyncio.timeout(_TIMEOUT):
            pid = await _pid(first)
    except TimeoutError:
        raise psycopg.OperationalError("the connection pooler gives no session") from None
    try:
        async with asyncio.timeout(_TIMEOUT), await _connect(given) as second:
            for _ in range(_ROUNDS):
                if await _pid(first) != pid or await _pid(second) == pid:
                    return True
    except TimeoutError:
        return False  # It has no second session to give while it keeps the first.
    return False


async def _connect(given: dict[str, Any]) -> _Connection:
    return await psycopg.AsyncConnection.connect(autocommit=True, **given)


async def _pid(connection: _Connection) -> int:
    row = await (await connection.execute(_PID, prepare=False)).fetchone()
    assert row is not None
    return int(row[0])
