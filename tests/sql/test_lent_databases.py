from contextlib import suppress
from typing import Any

import psycopg
import pytest

from support.postgres import Connection, Databases, connected
from support.sql import Queue, number

_TABLES = """
select oid::regclass::text from pg_class
where relnamespace = 'skipmq'::regnamespace and relkind = 'r' order by 1
"""
# What a new session has none of, and what it is.
_OF_A_SESSION = """
select current_user, session_user,
  (select array_agg(name || setting order by name) from pg_settings
   where source = 'session' and setting <> ''),
  (select array_agg(c) from pg_listening_channels() c),
  (select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'),
  (select count(*) from pg_prepared_statements),
  (select count(*) from pg_cursors where is_holdable),
  coalesce(current_setting('skipmq.clock_offset', true), '')
"""


def _picture(connection: Connection) -> list[Any]:
    """Return what a database and a session have that tests change."""
    tables = [name for (name,) in connection.execute(_TABLES)]
    counted = "select count(*), sum(hashtextextended(t::text, 0)) from {} t"
    return [
        *connection.execute(_OF_A_SESSION).fetchall(),
        *connection.execute("select sequencename, last_value from pg_sequences order by 1"),
        *[connection.execute(counted.format(name).encode()).fetchone() for name in tables],
    ]


@pytest.mark.parametrize(
    "leftover",
    [
        "select skipmq.send_message('orders', 'left')",
        "update skipmq.receipt_key set key = decode(repeat('00', 32), 'hex')",
        "delete from skipmq.job",
        "insert into skipmq.job values ('left')",
        "set skipmq.clock_offset = '1 day'",
        "set lock_timeout = '1s'; set role skipmq_node",
        "set session authorization skipmq_node",
        "listen left_over; notify left_over",
        "select pg_advisory_lock(1)",
        "prepare left_over as select 1",
        "declare left_over cursor with hold for select 1",
        "begin; select skipmq.send_message('orders', 'left')",
        "begin; select 1 / 0",
    ],
)
def test_next_test_finds_nothing_of_the_last(embedded_databases: Databases, leftover: str) -> None:
    with embedded_databases.lend() as url, connected(url) as owner:
        before = _picture(owner)
        Queue(owner).send("left")
        with suppress(psycopg.errors.DivisionByZero):
            owner.execute(leftover.encode())

    with embedded_databases.lend() as again, connected(again) as other:
        assert other is not owner
        assert _picture(other) == before


def test_tables_of_its_own_are_empty_again(embedded_databases: Databases) -> None:
    own = "create table public.own (id serial)"
    insert = "insert into public.own default values returning id"
    for _ in range(3):
        with embedded_databases.lend(own) as url, connected(url) as owner:
            assert number(owner, insert) == 1
            assert number(owner, "select count(*) from public.own") == 1


def test_database_and_its_session_are_those_of_the_last_test(embedded_databases: Databases) -> None:
    databases, sessions = set(), set()
    # One that is old or that the server has analyzed meanwhile goes to no other test.
    for _ in range(10):
        with embedded_databases.lend() as url, connected(url) as owner:
            Queue(owner).send("left")
            databases.add(url)
            sessions.add(owner.info.backend_pid)

    assert len(databases) < 5
    assert len(sessions) < 5


@pytest.mark.parametrize(
    "change",
    [
        "create table public.left_over ()",
        "begin; create table public.left_over (); rollback",
        "drop function skipmq.access_keys()",
        "grant select on skipmq.message to skipmq_node",
        "vacuum skipmq.queue",
        "analyze skipmq.job",
        "delete from skipmq.message",
        "truncate skipmq.disk_probe",
        "create temporary table left_over ()",
        "select lo_create(0)",
        "do $$ begin execute format('alter database %I set work_mem = 65',"
        " current_database()); end $$",
        "do $$ begin execute format('grant temporary on database %I to skipmq_node',"
        " current_database()); end $$",
    ],
)
def test_database_that_cannot_be_restored_is_dropped(
    embedded_databases: Databases, change: str
) -> None:
    with embedded_databases.lend() as url, connected(url) as owner:
        owner.execute(change.encode())

    with embedded_databases.lend() as another:
        assert another != url
    with psycopg.connect(embedded_databases.server.url) as connection:
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        assert not number(connection, "select count(*) from pg_database where datname = %s", name)


def test_database_with_a_session_that_goes_on_is_dropped(embedded_databases: Databases) -> None:
    with embedded_databases.lend() as url:
        session = psycopg.connect(url)

    with session, embedded_databases.lend() as another:
        assert another != url
