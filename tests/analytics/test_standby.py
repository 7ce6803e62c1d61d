"""Reading from a standby that cancels what is in the way of what it has to apply."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

pytest.importorskip("pyspark")

from skipmq.analytics import frames, jdbc
from skipmq.analytics.lake import export
from skipmq.database import embedded, session
from support.analytics import all_rows, lake_rows, rows_of, settle
from support.clock import connect
from support.http import eventually
from support.partitions import Partitions
from support.postgres import Connection, Databases
from support.servers import start
from support.sql import number
from support.standby import copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK = 7
WAITS = (
    "select query_start from pg_stat_activity"
    " where application_name = 'skipmq test' and wait_event = 'advisory'"
)


@pytest.fixture(scope="module")
def servers(public_folder: Path) -> Iterator[tuple[Databases, Databases]]:
    """Give a primary and its standby."""
    place = public_folder / "cancelling"
    with ExitStack() as stack:
        first = stack.enter_context(start(place / "first"))
        copy(first.url, place / "second")
        second = stack.enter_context(embedded.start(place / "second"))
        yield Databases(first), Databases(second)


@pytest.fixture(scope="module")
def both(servers: tuple[Databases, Databases]) -> Iterator[tuple[Connection, str]]:
    """Give a primary, and the URL of a standby that lets no reader hold it up."""
    with connect(servers[0].migrated()) as primary, ExitStack() as stack:
        url = applied(servers[1], primary)
        standby = stack.enter_context(connect(url))
        standby.execute("alter system set max_standby_streaming_delay = 0")
        standby.execute("select pg_reload_conf()")
        eventually(lambda: number(standby, "show max_standby_streaming_delay") == "0")
        yield primary, url


def applied(standby: Databases, primary: Connection) -> str:
    """Return the URL of a primary's database on its standby, once it is there."""
    name = primary.info.dbname
    with connect(standby.server.url) as connection:
        query = "select exists (select from pg_database where datname = %s)"
        eventually(lambda: number(connection, query, name))
    return standby.url(name)


def clear_up(primary: Connection) -> None:
    """Remove a row that the readers of a standby may still see."""
    primary.execute("create table if not exists public.gone as select 1")
    primary.execute("delete from public.gone")
    primary.execute("vacuum public.gone")
    primary.execute("drop table public.gone")


@pytest.fixture
def blocked(both: tuple[Connection, str]) -> Iterator[tuple[Connection, Future[object]]]:
    """Give who keeps a reader of the standby waiting, and what the reader is answered."""
    with (
        # Which the standby may cancel as well.
        session.connect(both[1], "skipmq test's other") as holder,
        session.connect(both[1], "skipmq test") as reader,
        ThreadPoolExecutor() as pool,
    ):
        holder.execute("select pg_advisory_lock(%s)", (LOCK,))
        query = "select 5 from pg_advisory_lock(%s)"
        answer = pool.submit(lambda: reader.execute(query, (LOCK,)).fetchone())
        eventually(lambda: holder.execute(WAITS).fetchone())
        yield holder, answer
        holder.execute("select pg_advisory_unlock_all()")


def test_statement_that_a_standby_cancels_is_run_again(
    both: tuple[Connection, str], blocked: tuple[Connection, Future[object]]
) -> None:
    holder, answer = blocked
    asked = holder.execute(WAITS).fetchone()

    clear_up(both[0])
    eventually(lambda: holder.execute(WAITS).fetchone() not in {asked, None})
    holder.execute("select pg_advisory_unlock_all()")

    assert answer.result() == (5,)


def test_export_from_a_standby_that_is_behind_has_what_it_has_applied_and_then_the_rest(
    spark: "SparkSession", both: tuple[Connection, str], place: str
) -> None:
    primary, url = both
    settle(primary, 20)
    with connect(url) as standby, jdbc.opened(url) as source:
        eventually(lambda: len(rows_of(standby)) == 20)
        standby.execute("select pg_wal_replay_pause()")
        settle(primary, 10, "mails")
        written = number(primary, "select pg_current_wal_flush_lsn()")
        received = "select pg_last_wal_receive_lsn() >= %s::pg_lsn"
        eventually(lambda: number(standby, received, written))

        behind = export.export(spark, source, place)
        rows = lake_rows(spark, place)
        standby.execute("select pg_wal_replay_resume()")
        # To read rows while they are applied may conflict with it.
        applied = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
        eventually(lambda: number(standby, applied, written))
        rest = export.export(spark, source, place)

    assert (behind.rows, rows) == (20, rows_of(primary)[:20])
    assert behind.standby_lag
    assert rest.standby_lag is not None
    assert (rest.rows, lake_rows(spark, place)) == (10, rows_of(primary))


@pytest.mark.slow
def test_partition_is_exported_as_far_as_its_standby_has_applied(
    spark: "SparkSession",
    servers: tuple[Databases, Databases],
    embedded_databases: Databases,
    router_server: Databases,
    place: str,
) -> None:
    made = Partitions([embedded_databases, servers[0]], router_server)
    with ExitStack() as stack:
        owners = [stack.enter_context(connect(url)) for url in made.urls]
        url = applied(servers[1], owners[1])
        standby = stack.enter_context(connect(url))
        first, second = (stack.enter_context(jdbc.opened(each)) for each in (made.urls[0], url))
        for owner in owners:
            settle(owner, 20)
        eventually(lambda: len(rows_of(standby)) == 20)
        standby.execute("select pg_wal_replay_pause()")
        for owner in owners:
            settle(owner, 10)
        written = number(owners[1], "select pg_current_wal_flush_lsn()")
        received = "select pg_last_wal_receive_lsn() >= %s::pg_lsn"
        eventually(lambda: number(standby, received, written))
        source = replace(first, partitions=(first, second))

        behind = export.export(spark, source, place)
        counts = frames.lake(spark, place).groupBy("partition").count().collect()
        standby.execute("select pg_wal_replay_resume()")
        eventually(lambda: len(rows_of(standby)) == 30)
        rest = export.export(spark, source, place)

        assert sorted(map(tuple, counts)) == [(0, 30), (1, 20)]
        assert behind.standby_lag
        assert rest.rows == 10
        assert lake_rows(spark, place) == all_rows(owners)
    made.drop()


def test_statement_that_a_standby_always_cancels_fails(
    both: tuple[Connection, str], blocked: tuple[Connection, Future[object]]
) -> None:
    _, answer = blocked

    eventually(lambda: clear_up(both[0]) or answer.done())

    assert isinstance(answer.exception(), psycopg.errors.SerializationFailure)
