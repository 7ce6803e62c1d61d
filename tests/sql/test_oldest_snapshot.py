import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from support import servers
from support.postgres import Connection, Databases, as_reader
from support.sql import number

OLDEST = "select began from skipmq.oldest_snapshot()"
BEGAN = "select xact_start from pg_stat_activity where pid = %s"
HOLDS = (
    "select backend_xmin is not null, backend_xid is not null from pg_stat_activity where pid = %s"
)
READ = "select count(*) from pg_class"
WRITE = "select pg_current_xact_id()"


@contextmanager
def transaction(url: str, statement: str) -> Iterator[int]:
    """Have a transaction open that has done something and is idle; give its process."""
    with psycopg.connect(url) as connection:
        if statement == READ:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(statement)
        yield connection.info.backend_pid


def began(owner: Connection, pid: int) -> datetime:
    found = number(owner, BEGAN, pid)
    assert isinstance(found, datetime)
    return found


@pytest.mark.parametrize("statement", [READ, WRITE])
def test_oldest_is_a_transaction_with_a_snapshot_or_that_wrote(
    database: str, owner: Connection, statement: str
) -> None:
    with transaction(database, statement) as pid, transaction(as_reader(database), READ):
        assert owner.execute(HOLDS, (pid,)).fetchone() == (statement == READ, statement == WRITE)
        assert number(owner, OLDEST) <= began(owner, pid)


def test_session_of_the_oldest_is_named(database: str, owner: Connection) -> None:
    named = psycopg.conninfo.make_conninfo(database, application_name="forgotten job")
    with transaction(named, WRITE):
        # Another test of this server may have an older one.
        (row,) = owner.execute(
            "select s.session, a.application_name, a.pid, a.usename, a.datname"
            " from skipmq.oldest_snapshot() s join pg_stat_activity a on a.xact_start = s.began"
        ).fetchall()

    session, application, pid, user, of = row
    assert session == f"{application}, process {pid}, user {user}, database {of}"


def test_transaction_that_holds_nothing_is_not_counted(database: str, owner: Connection) -> None:
    with transaction(database, "select 1") as pid:
        assert owner.execute(HOLDS, (pid,)).fetchone() == (False, False)
        assert number(owner, OLDEST) != began(owner, pid)


def test_of_another_database_only_who_wrote_is_counted(
    databases: Databases, owner: Connection
) -> None:
    elsewhere = databases.url("postgres")
    with transaction(elsewhere, READ) as pid:
        assert number(owner, OLDEST) != began(owner, pid)
    with transaction(elsewhere, WRITE) as pid:
        assert number(owner, OLDEST) <= began(owner, pid)


def test_vacuum_is_not_counted(database: str, owner: Connection) -> None:
    # Not vacuumed before by the server itself, after which there would be nothing to do.
    owner.execute(
        "create table public.large with (autovacuum_enabled = off)"
        " as select generate_series(1, 50000) as n"
    )
    busy = "select pid from pg_stat_progress_vacuum where datname = current_database()"
    with ThreadPoolExecutor() as pool, psycopg.connect(database, autocommit=True) as other:
        # As slow as can be.
        other.execute("set vacuum_cost_delay = 100")
        other.execute("set vacuum_cost_limit = 1")
        vacuum = pool.submit(other.execute, "vacuum public.large")
        pid, deadline = other.info.backend_pid, time.monotonic() + 30
        while (pid,) not in owner.execute(busy).fetchall():
            assert time.monotonic() < deadline

        assert owner.execute(HOLDS, (pid,)).fetchone() == (True, False)
        assert number(owner, OLDEST) != began(owner, pid)
        owner.execute("select pg_terminate_backend(%s)", (pid,))
        with pytest.raises(psycopg.OperationalError):
            vacuum.result()


def test_owner_that_is_no_monitor_does_not_count_what_it_cannot_see(
    database: str, owner: Connection
) -> None:
    owner.execute("create role stranger")
    owner.execute("alter function skipmq.oldest_snapshot() owner to stranger")
    with transaction(as_reader(database), READ) as pid:
        blind = number(owner, OLDEST)
        owner.execute("grant pg_monitor to stranger")
        sighted = number(owner, OLDEST)
        oldest = began(owner, pid)
    owner.execute("reassign owned by stranger to current_user")
    owner.execute("drop role stranger")

    assert blind is None
    assert sighted <= oldest


def test_prepared_transaction_is_counted_from_then_on(server_folder: Path) -> None:
    folder = server_folder / "prepared"
    folder.mkdir()
    (folder / "local.conf").write_text("max_prepared_transactions = 1\n")
    with servers.start(folder, migrated=True) as server:
        url = Databases(server).migrated()
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("begin")
            other.execute(WRITE)
            other.execute("prepare transaction 'forgotten'")

        with psycopg.connect(url, autocommit=True) as admin:
            found = number(admin, OLDEST)
            assert found <= number(admin, "select prepared from pg_prepared_xacts")
            admin.execute("rollback prepared 'forgotten'")
