"""Statements in the caller's transaction, whichever library has it open.

No library is imported: an object is known by the name of its class, so that a program pays for
none that it does not use.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any

from skipmq.client.errors import ClientError
from skipmq.client.statements import numbered

Rows = Sequence[Sequence[Any]]

_REMEDIES = {
    "sqlalchemy.Engine": "an engine has no transaction: `with engine.begin() as tx:`, and using=tx",
    "sqlalchemy.AsyncEngine": "an engine has no transaction:"
    " `async with engine.begin() as tx:`, and using=tx",
    "psycopg_pool.ConnectionPool": "a pool has no transaction:"
    " `with pool.connection() as connection:`, and using=connection",
    "psycopg_pool.AsyncConnectionPool": "a pool has no transaction:"
    " `async with pool.connection() as connection:`, and using=connection",
    "asyncpg.Pool": "a pool has no transaction:"
    " `async with pool.acquire() as connection:`, and using=connection",
}
_SYNCHRONOUS = ("psycopg.Connection", "psycopg.Cursor", "sqlalchemy.Connection")
_SESSIONS = ("sqlalchemy.Session", "sqlalchemy.scoped_session")
_ASYNC_PSYCOPG = ("psycopg.AsyncConnection", "psycopg.AsyncCursor")
_ASYNC_SESSIONS = ("sqlalchemy.AsyncSession", "sqlalchemy.async_scoped_session")
_ASYNCPG = ("asyncpg.Connection", "asyncpg.PoolConnectionProxy")
_ASYNCHRONOUS = (*_ASYNC_PSYCOPG, *_ASYNC_SESSIONS, *_ASYNCPG, "sqlalchemy.AsyncConnection")


def run(using: Any, statement: str, parameters: Sequence[Any]) -> Rows:
    """Run a statement in the caller's transaction; return its rows.

    `using` is a connection or cursor of psycopg, a connection or session of SQLAlchemy, or the
    alias of a database of Django. Raises ClientError for anything else.
    """
    if isinstance(using, str):
        return _django(using, statement, parameters)
    kinds = _kinds(using)
    if kinds & {"psycopg.Connection", "psycopg.Cursor"}:
        from psycopg import Cursor  # noqa: PLC0415 - the caller has imported it.
        from psycopg.rows import tuple_row  # noqa: PLC0415

        connection = _open(getattr(using, "connection", using))
        # Not the caller's cursor, whose rows it may still read.
        return Cursor(connection, row_factory=tuple_row).execute(statement, parameters).fetchall()
    if kinds & {*_SESSIONS}:
        using, kinds = using.connection(), {"sqlalchemy.Connection"}
    if "sqlalchemy.Connection" in kinds:
        text = _in_style_of(using, statement)
        return _open(using).exec_driver_sql(text, tuple(parameters)).fetchall()  # type: ignore[no-any-return]
    if kinds & {*_ASYNCHRONOUS}:
        raise ClientError(
            f"{_name(using)} is asynchronous: call the method that begins with a, as in"
            " `await queue.asend(…)`"
        )
    raise _unknown(using, kinds)


async def arun(using: Any, statement: str, parameters: Sequence[Any]) -> Rows:
    """Do what `run` does on an asynchronous connection or session, asyncpg's too."""
    kinds = _kinds(using)
    if kinds & {*_ASYNC_PSYCOPG}:
        from psycopg import AsyncCursor  # noqa: PLC0415 - the caller has imported it.
        from psycopg.rows import tuple_row  # noqa: PLC0415

        connection = _open(getattr(using, "connection", using))
        cursor = AsyncCursor(connection, row_factory=tuple_row)
        return await (await cursor.execute(statement, parameters)).fetchall()
    if kinds & {*_ASYNCPG}:
        if using.is_closed():
            raise _closed(using)
        return await using.fetch(numbered(statement), *parameters)  # type: ignore[no-any-return]
    if kinds & {*_ASYNC_SESSIONS}:
        using, kinds = await using.connection(), {"sqlalchemy.AsyncConnection"}
    if "sqlalchemy.AsyncConnection" in kinds:
        text = _in_style_of(using, statement)
        result = await _open(using).exec_driver_sql(text, tuple(parameters))
        return result.fetchall()  # type: ignore[no-any-return]
    if isinstance(using, str):
        raise ClientError(
            f"{_name(using)} is a database of Django, whose transactions are synchronous: in a"
            " function that `sync_to_async` runs call the method without the a, as in"
            " `queue.send(…)`"
        )
    if kinds & {*_SYNCHRONOUS, *_SESSIONS}:
        raise ClientError(
            f"{_name(using)} is synchronous: call the method without the a, as in `queue.send(…)`"
        )
    raise _unknown(using, kinds)


@contextmanager
def renewed() -> Iterator[None]:
    """Run a handler with connections of Django that are renewed, as Django does for a request.

    Before and after, those of this thread that broke or are older than CONN_MAX_AGE are closed.
    Where the program has no Django it does nothing.
    """
    close = _close_old_connections()
    if close is None:
        yield
        return
    close()
    try:
        yield
    finally:
        close()


@asynccontextmanager
async def arenewed() -> AsyncIterator[None]:
    """Do what `renewed` does for a coroutine, whose `sync_to_async` has a thread of its own."""
    close = _close_old_connections()
    if close is None:
        yield
        return
    aclose = import_module("asgiref.sync").sync_to_async(close)
    await aclose()
    try:
        yield
    finally:
        await aclose()


def _close_old_connections() -> Callable[[], None] | None:
    """Return Django's function, where the program has imported and set up Django."""
    database, configuration = sys.modules.get("django.db"), sys.modules.get("django.conf")
    if database is None or configuration is None or not configuration.settings.configured:
        return None
    return getattr(database, "close_old_connections", None)


def _django(alias: str, statement: str, parameters: Sequence[Any]) -> Rows:
    if "://" in alias:
        raise ClientError("a URL of a database has no transaction: connect, and using=connection")
    try:
        connections: Any = import_module("django.db").connections
        known = list(connections)
    except Exception as error:
        raise ClientError(
            f"using={alias!r} names a database of Django, which is not set up here ({error}):"
            " pass a connection or session"
        ) from error
    if alias not in known:
        raise ClientError(f"Django's DATABASES has no {alias!r}, but {', '.join(known)}")
    connection = connections[alias]
    if connection.vendor != "postgresql":
        raise _other_database(f"Django's {alias!r}", connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()  # type: ignore[no-any-return]


def _in_style_of(connection: Any, statement: str) -> str:
    """Return a statement as the driver below SQLAlchemy writes parameters."""
    dialect = connection.dialect
    if dialect.name != "postgresql":
        raise _other_database("this connection", dialect.name)
    return numbered(statement) if dialect.paramstyle == "numeric_dollar" else statement


def _open(connection: Any) -> Any:
    if connection.closed:
        raise _closed(connection)
    return connection


def _kinds(using: Any) -> set[str]:
    """Return the names of a value's classes, each after its library."""
    return {f"{c.__module__.partition('.')[0]}.{c.__qualname__}" for c in type(using).__mro__}


def _name(using: Any) -> str:
    return f"using={using!r}" if isinstance(using, str) else f"a {type(using).__qualname__}"


def _closed(using: Any) -> ClientError:
    return ClientError(f"{_name(using)} that is closed sends nothing: open another")


def _other_database(what: str, name: str) -> ClientError:
    return ClientError(
        f"{what} is of {name}: a message is sent in a transaction of PostgreSQL, where the broker"
        " has its schema"
    )


def _unknown(using: Any, kinds: set[str]) -> ClientError:
    for name, remedy in _REMEDIES.items():
        if name in kinds:
            return ClientError(remedy)
    return ClientError(
        f"{_name(using)} has no transaction to send in: pass a connection of psycopg, asyncpg or"
        " SQLAlchemy, a session of SQLAlchemy, or the alias of a database of Django"
    )
