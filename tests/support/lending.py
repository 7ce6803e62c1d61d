"""Databases that one test after the other is lent, with their sessions.

To make a database, to drop it and to fill a session's caches costs some 70 ms of the processor,
what a test of a function does in it 5. After a test the database is made as it was: its rows,
sequences and sessions. One with changes that this does not undo goes to no other test.
"""

import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import pq
from psycopg.sql import SQL, Composable, Literal

Connection = psycopg.Connection[tuple[Any, ...]]

# Tables grow with what is written to them, and plans change with their size.
_MAX_CHANGES = 5000
# Sessions that a test has closed end within this time.
_END_SECONDS = 0.2
# Their rows, of no queue, are what plans are made by. No test changes some of them: all are more
# than _MAX_CHANGES.
_BALLAST = ("skipmq.message", "skipmq.message_group")

# `fixed`: what changes with a schema, its rights, its statistics and a database's settings. The
# counters of the catalogs count what was rolled back, too.
_INSTALL = """
create schema lending;

create function lending.state(p_pids integer[], out sessions bigint, out changes bigint,
  out fixed text)
language sql stable set search_path = pg_catalog
as $$
  select
    (select count(*) from pg_stat_get_activity(null)
     where datid = me and pid <> all (p_pids) and backend_type <> 'autovacuum worker'),
    pg_stat_get_db_tuples_inserted(me) + pg_stat_get_db_tuples_updated(me)
    + pg_stat_get_db_tuples_deleted(me),
    concat_ws(' ',
      (select sum(pg_stat_get_tuples_inserted(c) + pg_stat_get_tuples_updated(c)
       + pg_stat_get_tuples_deleted(c)) from unnest({catalogs}::oid[]) c),
      (select sum(reltuples::numeric + relpages) from pg_class
       where relnamespace = {schema}::oid and relkind = 'r'),
      (select row (datdba, datconnlimit, datallowconn, datistemplate, datacl)::text
       from pg_database where oid = me),
      (select count(*) from pg_db_role_setting where setdatabase = me),
      (select count(*) from pg_prepared_xacts where database = current_database()),
      (select count(*) from pg_replication_slots where database = current_database()),
      pg_stat_get_db_stat_reset_time(me),
      (now() at time zone 'UTC')::date)
  from (select oid from pg_database where datname = current_database()) d (me)
$$;

create function lending.restore() returns void
language plpgsql set session_replication_role = replica set search_path = pg_catalog
as $restore$
begin
{statements}
end $restore$;
"""
_CATALOGS = """
select array_agg(oid) from pg_class where relkind in ('r', 't') and not relisshared
and relnamespace in ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace)
and oid not in (select reltoastrelid from pg_class where relnamespace = 'skipmq'::regnamespace)
"""
_SCHEMA = "select 'skipmq'::regnamespace::oid::bigint"
_TABLES = """
select format('%I.%I', relnamespace::regnamespace, relname) from pg_class
where relnamespace in ('skipmq'::regnamespace, 'public'::regnamespace) and relkind = 'r'
order by oid
"""
_SEQUENCES = "select format('%I.%I', schemaname, sequencename) from pg_sequences"
_SESSION_AS_NEW = b"""
reset session authorization;
reset role;
reset all;
close all;
unlisten *;
select pg_advisory_unlock_all();
deallocate all;
discard temp;
discard sequences;
select setseed(sin(extract(epoch from clock_timestamp()))), pg_stat_force_next_flush()
"""


def install(url: str, own: str) -> None:
    """Put what tests have of their own and what lending needs into a database to be copied."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(own.encode())
        connection.execute(
            SQL(_INSTALL).format(
                catalogs=Literal(_value(connection, SQL(_CATALOGS))),
                schema=Literal(_value(connection, SQL(_SCHEMA))),
                statements=SQL("\n").join(_restoring(connection)),
            )
        )


def _restoring(connection: Connection) -> Iterator[Composable]:
    """Yield the statements that restore the rows of tables, and sequences without a number yet."""
    for (name,) in connection.execute(_SEQUENCES).fetchall():
        yield SQL("perform setval({}, 1, false);").format(Literal(name))
    for (name,) in connection.execute(_TABLES).fetchall():
        # The catalog has quoted the name.
        table = SQL(name)
        if name in _BALLAST:
            yield SQL("delete from {} where queue_id > 0 or queue_id < 0;").format(table)
            continue
        rows = SQL("(select array_agg(t::text order by t::text) from {} t)").format(table)
        kept = _value(connection, SQL("select ") + rows)
        if not kept:
            yield SQL("delete from {};").format(table)
            continue
        yield SQL(
            "if {rows} is distinct from {kept}::text[] then delete from {table};"
            " insert into {table} select (r::{table}).* from unnest({kept}::text[]) r; end if;"
        ).format(rows=rows, kept=Literal(kept), table=table)


def _value(connection: Connection, statement: Composable) -> Any:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


class LentDatabase:
    """A database to lend, and the sessions that tests had in it, by their URLs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._sessions: dict[str, Connection] = {}
        # Connections of tests that ended, on sessions that go on.
        self._used: list[Connection] = []
        _, _, self._fixed = self._state()

    def session(self, url: str) -> Connection:
        """Return the session of a URL of this database, a new one if it has ended."""
        if url not in self._sessions or self._sessions[url].closed:
            self._sessions[url] = psycopg.connect(url, autocommit=True)
        return self._sessions[url]

    def restore(self) -> bool:
        """Make the database as it was; return False if something of the test remains."""
        try:
            self._sessions = {
                url: self._renewed(each) for url, each in self._sessions.items() if not each.closed
            }
            # Not by `eventually`, whose module imports this one and which fails what does not come.
            until = time.monotonic() + _END_SECONDS
            while (state := self._state())[0] and time.monotonic() < until:
                time.sleep(0.001)
            others, changes, fixed = state
            if others or changes > _MAX_CHANGES or fixed != self._fixed:
                return False
            self.session(self.url).execute("select lending.restore()")
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        for each in self._sessions.values():
            each.close()

    def _state(self) -> tuple[int, int, str]:
        """Return the number of others' sessions, that of changed rows, and what stays fixed."""
        connection = self.session(self.url)
        pids = [each.info.backend_pid for each in self._sessions.values()]
        row = connection.execute("select * from lending.state(%s)", (pids,)).fetchone()
        assert row is not None
        return row[0], row[1], row[2]

    def _renewed(self, used: Connection) -> Connection:
        """Return a new connection on the session of one, whose settings are as they were."""
        if used.info.transaction_status != pq.TransactionStatus.IDLE:
            used.pgconn.exec_(b"rollback")
        if used.pgconn.exec_(_SESSION_AS_NEW).status != pq.ExecStatus.TUPLES_OK:
            raise psycopg.OperationalError(used.pgconn.get_error_message())
        while used.pgconn.notifies():
            pass
        self._used.append(used)
        connection: Connection = psycopg.Connection(used.pgconn)
        connection.autocommit = True
        return connection
