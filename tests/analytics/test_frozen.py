"""Reads of a server that freezes: none waits for it, and no long statement is taken for one."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

pytest.importorskip("pyspark")

from skipmq.analytics import jdbc, partitions
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.jdbc import watched
from skipmq.analytics.lake import export
from skipmq.analytics.spark import spark_errors
from skipmq.database import session
from support import servers, trees
from support.analytics import FACTS, all_rows, lake_rows, settle, settle_copies
from support.clock import connect
from support.http import eventually
from support.partitions import Partitions
from support.postgres import Connection, Databases, as_node, as_reader
from support.sql import number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK = 7
# Of Spark's reader for JDBC, and of the executors that read a stream.
BY_JDBC, BY_STREAM = "SELECT %", "FETCH %"
READS = (
    "select count(*) from pg_stat_activity where datname = current_database() and query like %s"
    " and state <> 'idle'"
)
GONE = "has stopped responding: its server is frozen or overloaded"


@pytest.fixture(scope="module")
def server(public_folder: Path) -> Iterator[Databases]:
    """Give a server that may be frozen."""
    with servers.start(public_folder / "frozen", ephemeral=True) as started:
        yield Databases(started)


@pytest.fixture
def database(server: Databases) -> str:
    """Give a fresh database on that server."""
    return server.migrated()


def impatient(url: str) -> str:
    """Return a URL whose silent server is probed after the shortest time."""
    return make_conninfo(url, connect_timeout=2)


def postmaster(connection: Connection) -> int:
    return psutil.Process(connection.info.backend_pid).ppid()


@contextmanager
def frozen_when(owner: Connection, fact: Callable[[], object]) -> Iterator[None]:
    """Freeze the server as soon as something is so, and thaw it at the end of the block."""
    over, pid = threading.Event(), postmaster(owner)

    def freeze() -> None:
        eventually(lambda: fact() or over.is_set(), 120, "the fact that freezes the server")
        with trees.frozen(pid):
            over.wait()

    with ThreadPoolExecutor() as pool:
        done = pool.submit(freeze)
        try:
            yield
        finally:
            over.set()
            done.result()


def reads(owner: Connection, pattern: str) -> Callable[[], object]:
    return lambda: number(owner, READS, pattern)


def test_long_statement_is_not_taken_for_a_frozen_server(owner: Connection, database: str) -> None:
    probed = "select pg_stat_clear_snapshot()::text || sessions from pg_stat_database"
    patient = make_conninfo(database, connect_timeout=5)
    with session.connect(patient, "reader") as reader, ThreadPoolExecutor() as pool:
        owner.execute("select pg_advisory_lock(%s)", (LOCK,))
        waiting = pool.submit(reader.execute, "select pg_advisory_lock(%s)", (LOCK,))
        here = f"{probed} where datname = current_database()"
        before = number(owner, here)
        eventually(lambda: number(owner, here) != before, why="the server is probed")

        assert not waiting.done()
        owner.execute("select pg_advisory_unlock(%s)", (LOCK,))
        waiting.result()


def test_statement_of_a_frozen_server_fails_and_names_its_database(
    owner: Connection, database: str
) -> None:
    with (
        suppress(psycopg.OperationalError),
        session.connect(impatient(database), "reader") as reader,
        reader.transaction(),
        reader.cursor("rows") as cursor,
    ):
        cursor.execute("select generate_series(1, 100000)")
        cursor.fetchmany(10)
        with (
            trees.frozen(postmaster(owner)),
            pytest.raises(psycopg.OperationalError, match=f"{owner.info.dbname} at .*{GONE}"),
        ):
            cursor.fetchmany(100_000)
        with pytest.raises(psycopg.OperationalError, match="connection is closed"):
            reader.execute("select 1")


def test_frozen_server_opens_no_session(owner: Connection, database: str) -> None:
    with (
        trees.frozen(postmaster(owner)),
        pytest.raises(session.Unavailable, match=f"{owner.info.dbname} at .* opened no session"),
    ):
        session.connect(impatient(database), "reader")


def test_read_by_jdbc_of_a_frozen_server_ends_and_frees_its_tasks(
    spark: "SparkSession", owner: Connection, database: str
) -> None:
    endless = "(select n, pg_sleep(0.01) from generate_series(1, 20000) n) t"
    with jdbc.opened(impatient(database)) as source:
        rows = source.read(spark, endless, ["n % 2 = 0", "n % 2 = 1"], fetch=10)

        with (
            frozen_when(owner, lambda: number(owner, READS, BY_JDBC) == 2),
            pytest.raises(session.Unavailable, match=f"{owner.info.dbname} at .*{GONE}"),
            watched(spark, source),
        ):
            rows.count()
        # All of Spark's tasks were waiting.
        assert spark.range(10).repartition(2).count() == 10


@pytest.mark.slow
def test_partition_that_freezes_while_it_is_read_does_not_hold_up_the_others(
    spark: "SparkSession",
    server: Databases,
    embedded_databases: Databases,
    router_server: Databases,
    place: str,
) -> None:
    made = Partitions([server, embedded_databases], router_server)
    with (
        ExitStack() as stack,
        partitions.opened(impatient(as_node(made.router))) as routed,
    ):
        owners = [stack.enter_context(connect(url)) for url in made.urls]
        for owner in owners:
            settle(owner, 20)
        settle_copies(owners[0], 1_000_000, 30_000)

        with frozen_when(owners[0], reads(owners[0], BY_JDBC)):
            without = export.export(spark, routed, place)
        rest = export.export(spark, routed, place)

        assert (without.rows, list(without.until)) == (20, [1])
        assert GONE in without.unavailable[0]
        assert (rest.rows, rest.unavailable) == (30_020, {})
        assert lake_rows(spark, place) == all_rows(owners)
    made.drop()


@pytest.mark.slow
def test_stream_fails_when_its_server_freezes_and_goes_on_with_each_row_once(
    spark: "SparkSession", owner: Connection, database: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - PySpark is an extra.

    settle(owner, 20)
    settle_copies(owner, 1_000_000, 150_000)
    url = impatient(as_reader(database))
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"

    # In batches: a server that is frozen when one has been read is met by the next.
    def drain() -> None:
        query = (
            spark.readStream.format("skipmq").option("url", url)
            .option("maxRowsPerTrigger", "20000").load()
            .writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True).start(str(out))
        )  # fmt: skip
        assert query.awaitTermination(120)

    with (
        frozen_when(owner, reads(owner, BY_STREAM)),
        pytest.raises(StreamingQueryException) as caught,
    ):
        drain()
    drain()

    said = spark_errors.explain(caught.value)
    assert said is not None
    assert owner.info.dbname in said
    rows = spark.read.schema(HISTORY).parquet(str(out)).select(*FACTS.split(", "))
    assert sorted(map(tuple, rows.collect())) == all_rows([owner])
