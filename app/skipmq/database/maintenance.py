"""Connections for maintenance, as the schema's owner: migrations, partitions, commands.

Neither end waits for ever. The server ends a session whose client is gone within some ten seconds,
with its locks; a lock that is not free in time is an error that names who holds it.
"""

from typing import Any
from weakref import WeakSet

import psycopg

from skipmq.database import address, pins
from skipmq.database.session import open_pinned

# What the server does when the client is silent, and for how long the session may wait. Over a Unix
# socket TCP's settings are ignored.
SETTINGS = pins.UNLIMITED | {
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "10min",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30s",
}
# The sessions that hold locks on the schema, or advisory ones, the oldest transaction first.
_HOLDERS = """
select a.pid, a.application_name, a.usename, a.state, coalesce(a.xact_start, a.backend_start)
from pg_stat_activity a
where a.datname = current_database() and a.pid <> all (%s) and a.pid <> pg_backend_pid()
  and a.pid in (
    select l.pid from pg_locks l
    where l.granted and (
      l.locktype = 'advisory' or l.relation in (
        select c.oid from pg_class c where c.relnamespace::regnamespace::text like 'skipmq%%')))
order by 5
limit 3
"""
_HOLDER_OF_LOCK = """
select a.pid, a.application_name, a.usename, a.state, a.backend_start
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.database = (select d.oid from pg_database d where d.datname = current_database())
  and (l.classid::bigint << 32 | l.objid::bigint) = %s
"""


class LockedError(psycopg.errors.LockNotAvailable):
    """A lock that was not free in time; the message names the sessions that may hold it."""


class _Cursor(psycopg.Cursor[Any]):
    def execute(self, *args: Any, **options: Any) -> "_Cursor":
        try:
            return super().execute(*args, **options)
        except psycopg.errors.LockNotAvailable as error:
            raise LockedError(_explained(error, self.connection.info)) from error


class _Session(psycopg.Connection[Any]):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = _Cursor


_sessions: WeakSet[_Session] = WeakSet()


def connect(
    url: str, *, autocommit: bool = True, application_name: str = "", connect_timeout: int = 5
) -> psycopg.Connection[Any]:
    """Connect to a database for maintenance; raise psycopg.OperationalError.

    A lock that is not free within `lock_timeout` is a LockedError.
    """
    given = {"fallback_application_name": "skipmq maintenance", **pins.KEEPALIVE}
    given |= {"connect_timeout": str(connect_timeout), **address.parameters(url)}
    if application_name:
        given["application_name"] = application_name
    connection = open_pinned(_Session, given, SETTINGS, autocommit=autocommit)
    _sessions.add(connection)
    return connection


def holder(connection: psycopg.Connection[Any], lock: int) -> str:
    """Return the session that holds an advisory lock, and the statement that ends it."""
    return _named(connection.execute(_HOLDER_OF_LOCK, (lock,)).fetchall())


def _explained(error: psycopg.Error, info: psycopg.ConnectionInfo) -> str:
    """Return the text of a lock timeout with the sessions that may hold the lock."""
    text = " ".join(str(error).split())
    own = [each.info.backend_pid for each in _sessions if not each.closed]
    try:
        given = address.parameters(info.dsn) | {"connect_timeout": "5"}
        given |= {"password": info.password} if info.password else {}
        with open_pinned(psycopg.Connection, given) as asking:
            return f"{text}: {_named(asking.execute(_HOLDERS, (own,)).fetchall())}"
    except psycopg.Error:
        return text


def _named(rows: list[Any]) -> str:
    if not rows:
        return "the session that held it has ended: try again"
    return "; ".join(
        f"process {pid} ({name or 'no application_name'}, of {role}, {state}) has been open since"
        f" {since:%Y-%m-%d %H:%M:%S %Z}: end it with `select pg_terminate_backend({pid})`"
        for pid, name, role, state, since in rows
    )
