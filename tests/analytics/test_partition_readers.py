"""Readers of partitions: streams, reports, replays, erasure and reconciliation, by the router."""

import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from skipmq.analytics import (
    delta,
    frames,
    notebook,
    partitions,
    queue_settings,
    reconcile,
    replay,
    snapshot,
    sources,
)
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.lake import forget
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.reports import report
from skipmq.analytics.reports.engines import duckdb
from skipmq.analytics.reports.period import Period
from skipmq.protocol.identity import QueueName
from support.analytics import FACTS, all_rows, lake_rows, rows_of, settle
from support.clock import connect
from support.http import eventually
from support.partitions import Partitions, in_second, run
from support.postgres import Connection, Databases, as_node, as_reader
from support.sql import Queue, number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skipmq.analytics.jdbc import Source


def stream(spark: "SparkSession", url: str, **options: str) -> "DataFrame":
    return spark.readStream.format("skipmq").options(url=as_reader(url), **options).load()


def drain(frame: "DataFrame", place: Path) -> list[int]:
    """Write all there is now to a folder; return the sizes of the batches."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "out"))
    )
    assert query.awaitTermination(120)
    return [progress["numInputRows"] for progress in query.recentProgress]


def written(spark: "SparkSession", place: Path) -> list[tuple[Any, ...]]:
    found = spark.read.schema(HISTORY).parquet(str(place / "out"))
    return [tuple(row) for row in found.select(*FACTS.split(", ")).orderBy("id", "xid").collect()]


@pytest.mark.slow
def test_stream_goes_on_in_each_partition_and_keeps_to_its_limit(
    spark: "SparkSession", two: Partitions, owners: list[Connection], tmp_path: Path
) -> None:
    frame = stream(spark, two.router, maxRowsPerTrigger="30")
    settle(owners[0], 30, "tea")
    first = drain(frame, tmp_path)
    settle(owners[1], 50, "mails")
    settle(owners[0], 10, "tea")

    second = drain(frame, tmp_path)

    assert written(spark, tmp_path) == all_rows(owners)
    assert (sum(first), sum(second)) == (30, 60)
    assert max(first + second) <= 30
    batch = stream_of(spark, two.router).groupBy("partition").count().collect()
    assert sorted(map(tuple, batch)) == [(0, 40), (1, 50)]


def stream_of(spark: "SparkSession", url: str) -> "DataFrame":
    """Read the whole history at once."""
    return spark.read.format("skipmq").options(url=as_reader(url)).load()


@pytest.mark.slow
def test_stream_of_one_database_goes_on_when_it_is_the_first_partition(
    spark: "SparkSession",
    embedded_databases: Databases,
    second_server: Databases,
    router_server: Databases,
    tmp_path: Path,
) -> None:
    one = Partitions([embedded_databases], router_server)
    with connect(one.urls[0]) as first:
        settle(first, 20, "tea")
        drain(stream(spark, one.urls[0]), tmp_path)
        settle(first, 10, "tea")
        drain(stream(spark, one.router), tmp_path)
        assert one.add(second_server).exit_code == 0
        with connect(one.urls[1]) as second:
            settle(second, 30, "mails")

            drain(stream(spark, one.router), tmp_path)

            assert written(spark, tmp_path) == all_rows([first, second])
            with pytest.raises(Exception, match="use the URL of their router"):
                drain(stream(spark, one.urls[0]), tmp_path)
    one.drop()


def copy_history(source: Connection, target: Connection, name: str) -> None:
    """Copy a queue's history, and its messages, to another database, as if settled there."""
    columns = (
        "settled_at, sent_at, first_received_at, id, receive_count, body_bytes, attribute_bytes,"
        " message_id, outcome, group_id, sender, node, attributes, body"
    )
    queue = Queue(target, name)
    rows = source.execute(
        f"select {columns} from skipmq_views.history where queue = %s", (name,)
    ).fetchall()
    places = ", ".join(["%s"] * len(columns.split(",")))
    with target.cursor() as cursor:
        cursor.executemany(
            f"insert into skipmq.history (queue_id, xid, {columns})"
            f" values ({queue.id}, pg_current_xact_id()::text::bigint, {places})",
            rows,
        )


def by_duckdb(lake: str, period: Period) -> Mapping[str, pa.Table]:
    url = delta.url_of(lake)
    with duckdb.opened() as engine:
        history = engine.history(delta.open_(url), period.before.since, as_of=period.until)
        queues = engine.queues(queue_settings.from_lake(url))
        with report.reports(engine, history, queues, period) as computed:
            return {name: compute() for name, compute in computed.items()}


def listed(tables: Mapping[str, pa.Table]) -> dict[str, list[Any]]:
    return {name: sorted(map(str, table.to_pylist())) for name, table in tables.items()}


def test_reports_on_partitions_are_those_on_one_database_with_the_same_queues(
    spark: "SparkSession",
    source: "Source",
    owner: Connection,
    routed: "Source",
    owners: list[Connection],
    tmp_path: Path,
) -> None:
    for place, name in enumerate(("tea", "mails", "jobs")):
        queue = settle(owners[place % 2], 30, name, HistoryMode="full")
        queue.send(*["poison"] * 5)
        queue.hide(0, *queue.receive(3))
        queue.delete(*queue.receive(2))
        copy_history(owners[place % 2], owner, name)
    until = number(owner, "select date_trunc('second', clock_timestamp()) + interval '1 s'")
    period = Period(until.astimezone(UTC) - timedelta(hours=1), until.astimezone(UTC))
    lakes = [str(tmp_path / name) for name in ("one", "two")]
    exported = [
        export(spark, each, lake).rows for each, lake in zip((source, routed), lakes, strict=True)
    ]

    single, spread = (listed(by_duckdb(lake, period)) for lake in lakes)
    read = frames.lake(spark, lakes[1], since=period.before.since, as_of=period.until)

    assert exported[0] == exported[1] == len(rows_of(owner)) > 90
    assert spread == single
    # What Spark's reports read, which on one lake are those of DuckDB.
    assert read.count() == exported[1]
    assert lake_rows(spark, lakes[1]) == all_rows(owners)


def test_reports_read_the_messages_that_wait_in_each_partition(
    spark: "SparkSession", routed: "Source", owners: list[Connection]
) -> None:
    for owner, name, waiting in zip(owners, ("tea", "mails"), (3, 4), strict=True):
        settle(owner, 10, name).send(*["waits"] * waiting)
    since = datetime.now(UTC) - timedelta(days=1)  # noqa: TID251 - a day of history.

    found = sources.from_database(spark, routed, since)

    counts = found.groupBy("partition", "queue", found.settled_at.isNull()).count().collect()
    assert {tuple(row) for row in counts} == {
        (0, "tea", False, 10), (0, "tea", True, 3), (1, "mails", False, 10), (1, "mails", True, 4),
    }  # fmt: skip
    assert queue_settings.from_database(routed)["queue"].to_pylist() == ["mails", "tea"]


@pytest.mark.slow
def test_messages_are_erased_in_each_partition_and_the_lake(
    spark: "SparkSession", routed: "Source", owners: list[Connection], place: str
) -> None:
    for owner in owners:
        settle(owner, 10, HistoryMode="full").send("body 7")
    export(spark, routed, place)
    lake = Lake.open(spark, place)

    erased: dict[str, int] = {}
    for step, done in forget.erase(owners, lake, "body = 'body 7'"):
        erased[step] = erased.get(step, 0) + done

    assert erased == {"live": 2, "history": 2, "lake": 2}
    assert forget.find(owners, lake, "body = 'body 7'") == []
    assert sum(each.messages for each in forget.find(owners, lake, "true")) == 36


def test_replay_sends_messages_of_all_partitions_to_a_queue_of_one(
    spark: "SparkSession", routed: "Source", owners: list[Connection]
) -> None:
    for owner, name in zip(owners, ("tea", "mails"), strict=True):
        settle(owner, 10, name, HistoryMode="full")
    again = Queue(owners[1], "again")

    to = QueueName("000000000000", "us-east-1", "again")
    writer = replay.target(owners, to)
    found = replay.selected(frames.history(spark, routed, bodies=True), "body like 'body _'")
    for _ in range(2):
        staged = replay.stage(writer, "again", to, found.collect())
        sent = sum(replay.send(writer, "again", to, staged))

    assert writer is owners[1]
    assert (staged.rows, sent) == (20, 0)
    assert sum(len(again.receive()) for _ in range(2)) == 20


def fates(spark: "SparkSession", source: "Source") -> dict[tuple[str, str], int]:
    """Return the number of messages of each fate and queue."""
    with snapshot.taken_of_all(source) as taken:
        first, *others = (snapshot.everything(spark, each) for each in taken)
        for each in others:
            first = first.union(each)
        now = datetime.now(UTC)  # noqa: TID251 - of late messages.
        rows = (
            reconcile.fates(first, None, now=now, late=60)
            .groupBy("queue", "fate")
            .count()
            .collect()
        )
    return {(row["queue"], row["fate"]): row["count"] for row in rows}


def test_queue_that_is_moved_is_reconciled_and_read_once(
    spark: "SparkSession",
    embedded_databases: Databases,
    second_server: Databases,
    router_server: Databases,
) -> None:
    one = Partitions([embedded_databases], router_server)
    name = in_second("orders")
    with connect(one.urls[0]) as old:
        settle(old, 10, name).send("a", "b", "c")
        assert one.add(second_server).exit_code == 0
        with (
            psycopg.connect(one.urls[0]) as held,
            partitions.opened(as_reader(one.router)) as routed,
        ):
            held.execute("select")
            options = ("--router", one.router, "--wait", "120", "--json")
            results: list[Any] = []
            mover = threading.Thread(target=lambda: results.append(run("rebalance", *options)))
            reader = threading.Thread(target=lambda: results.append(fates(spark, routed)))
            mover.start()
            eventually(lambda: number(old, "select count(*) from skipmq.relocation") == 1)
            reader.start()
            tried = (
                "select count(*) from pg_stat_activity where query ~ 'pg_export_snapshot'"
                " and pid <> pg_backend_pid()"
            )
            eventually(lambda: number(old, tried), why="the snapshot is tried")
            held.rollback()
            mover.join()
            reader.join()
        with connect(one.urls[1]) as new:
            here = Queue(new, name)
            here.delete(*here.receive(2))
            with partitions.opened(as_reader(one.router)) as routed:
                after = fates(spark, routed)
    one.drop()

    moved, during = sorted(results, key=lambda each: isinstance(each, dict))
    assert json.loads(moved.stdout)["moved"] == 1
    assert during == {(name, "deleted"): 10, (name, "waiting"): 3}
    assert sum(after.values()) == 13
    assert after[name, "deleted"] > 10
    assert (name, "duplicated") not in after


def test_notebook_reads_the_partition_that_is_named(
    monkeypatch: pytest.MonkeyPatch, two: Partitions
) -> None:
    monkeypatch.setenv("SKIPMQ_DATABASE_URL", as_node(two.router))

    urls = [notebook.connection(partition=number)[0] for number in (0, 1)]

    names = [psycopg.conninfo.conninfo_to_dict(url)["dbname"] for url in two.urls]
    assert [url.partition("?")[0].rpartition("/")[2] for url in urls] == names
    for wrong in (None, 2):
        with pytest.raises(AnalyticsError, match="is a router: specify a partition, 0 to 1"):
            notebook.connection(partition=wrong)


def test_standby_is_asked_for_in_each_partition(two: Partitions) -> None:
    wanted = psycopg.conninfo.make_conninfo(
        as_node(two.router), target_session_attrs="prefer-standby"
    )

    found = partitions.routed(wanted)

    assert found is not None
    given = [psycopg.conninfo.conninfo_to_dict(url) for url in found]
    assert [each["target_session_attrs"] for each in given] == ["prefer-standby"] * 2
    assert {each["user"] for each in given} == {"skipmq_node"}
