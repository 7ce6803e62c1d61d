"""Detect a connection pooler that shares server sessions between clients.

With PgBouncer's pool modes `transaction` and `statement` prepared statements and LISTEN fail: the
next client gets the session that they belong to.
"""

import asyncio
from time import monotonic
from typing import Any, TypeAlias

import psycopg

from skipmq.database import pins

_Connection: TypeAlias = psycopg.AsyncConnection[Any]

_PID = "select pg_backend_pid()"
# Statements to compare: a pooler hands out the session returned last, or all sessions in turn.
_ROUNDS = 12
# Seconds that a pooler has to hand out a session.
_TIMEOUT = 5.0
# Seconds for which a result is kept: a check takes two of the pooler's sessions.
_VALID_SECONDS = 5.0
_valid_until: dict[str, float] = {}
_PLACE = "a connection pooler stands in front of PostgreSQL and"
_DIRECT = "name PostgreSQL itself in SKIPMQ_DATABASE_URL, or set"
_SHARES = (
    f"{_PLACE} gives one session to several clients (PgBouncer's pool_mode transaction or"
    f" statement), where prepared statements and LISTEN fail: {_DIRECT} pool_mode = session"
)
_REFUSES_OPTIONS = (
    f"{_PLACE} rejects the startup options of nodes' sessions: {_DIRECT} in PgBouncer"
    " ignore_startup_parameters = extra_float_digits, options, as"
    " app/docs/operate/managed-postgresql.md describes"
)


class PoolerError(psycopg.OperationalError):
    """A pooler that nodes cannot use; the message has the remedy."""


async def check(given: dict[str, Any]) -> None:
    """Raise PoolerError when the pooler at these connection parameters shares sessions.

    Raises psycopg.OperationalError when the server is unavailable.
    """
    place = repr(sorted(given.items()))
    if _valid_until.get(place, 0.0) > monotonic():
        return
    async with await _connect(given) as first:
        if await _is_shared(first, given):
            raise PoolerError(_SHARES)
    _valid_until[place] = monotonic() + _VALID_SECONDS


async def check_options(given: dict[str, Any]) -> None:
    """Raise PoolerError when a pooler rejects the `options` in these parameters."""
    try:
        await (await _connect(given)).close()
    except psycopg.OperationalError as error:
        if pins.is_refused(error):
            raise PoolerError(_REFUSES_OPTIONS) from error
        raise


async def _is_shared(first: _Connection, given: dict[str, Any]) -> bool:
    try:
        async with asyncio.timeout(_TIMEOUT):
            pid = await _pid(first)
    except TimeoutError:
        raise psycopg.OperationalError("the connection pooler has no free session") from None
    try:
        async with asyncio.timeout(_TIMEOUT), await _connect(given) as second:
            for _ in range(_ROUNDS):
                if await _pid(first) != pid or await _pid(second) == pid:
                    return True
    except TimeoutError:
        return False  # It has one session, and keeps it for the first client.
    return False


async def _connect(given: dict[str, Any]) -> _Connection:
    return await psycopg.AsyncConnection.connect(
        **given | {"autocommit": True, "client_encoding": "UTF8"}
    )


async def _pid(connection: _Connection) -> int:
    row = await (await connection.execute(_PID, prepare=False)).fetchone()
    assert row is not None
    return int(row[0])
