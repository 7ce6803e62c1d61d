"""Analytics of partitions: all in one lake, each row once."""

import json
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from skipmq.analytics import delta, frames, partitions, queue_settings
from skipmq.analytics.errors import LakeError
from skipmq.analytics.lake import stored_rows, verify
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import history
from skipmq.database import embedded, session
from support import servers
from support.analytics import SHORT_LIVED, Writers, age, all_rows, lake_rows, promote, settle
from support.clock import connect
from support.http import SKIPMQ, environment
from support.partitions import Partitions, in_second, run
from support.postgres import Connection, Databases, as_node
from support.sql import number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

AGE_AGAIN = (
    "update skipmq.history set settled_at = settled_at - interval '10 days'"
    " where settled_at > now() - interval '5 days'"
)
COUNT = "select count(*) from skipmq.history"
DROP = "select skipmq.drop_history_partitions('7 days', true)"


def has_all(spark: "SparkSession", place: str, owners: list[Connection]) -> bool:
    return lake_rows(spark, place) == all_rows(owners)


def test_export_has_each_row_of_each_partition_once_and_its_partition(
    spark: "SparkSession", routed: "Source", owners: list[Connection], place: str
) -> None:
    settle(owners[0], 20, "tea")
    settle(owners[1], 30, "mails", HistoryMode="full")

    first = export(spark, routed, place)
    settle(owners[1], 10, "mails")
    second = export(spark, routed, place)
    third = export(spark, routed, place)

    rows = frames.lake(spark, place).groupBy("queue", "partition").count().collect()
    table = delta.open_(delta.url_of(place))
    settings = queue_settings.from_lake(table.lake)
    assert (first.rows, second.rows, third.rows) == (50, 10, 0)
    assert has_all(spark, place, owners)
    assert {tuple(row) for row in rows} == {("tea", 0, 20), ("mails", 1, 40)}
    assert all(0 < table.position(n) <= third.until[n] for n in (0, 1))
    assert sorted(w.partition for w in table.windows(timedelta(hours=1))) == [0, 1, 1]
    assert [(each["queue"], each["partition"]) for each in settings.to_pylist()] == [
        ("mails", 1),
        ("tea", 0),
    ]


@pytest.mark.slow
def test_lake_of_one_database_gets_the_partitions_that_join_it(
    spark: "SparkSession",
    embedded_databases: Databases,
    second_server: Databases,
    router_server: Databases,
    place: str,
) -> None:
    one = Partitions([embedded_databases], router_server)
    name = in_second("orders")
    with connect(one.urls[0]) as old, partitions.opened(one.urls[0]) as alone:
        settle(old, 20, name)
        queue = settle(old, 10, "tea")
        queue.send("stays")
        export(spark, alone, place)
        settle(old, 10, name).send("moves", "too")

        assert one.add(second_server).exit_code == 0
        moved = json.loads(run("rebalance", "--router", one.router, "--json").stdout)
        with connect(one.urls[1]) as new, partitions.opened(as_node(one.router)) as routed:
            here = settle(new, 10, name)
            here.delete(*here.receive())
            done = export(spark, routed, place)
            number(old, "select skipmq.clear_retired(1000)::text")
            again = export(spark, routed, place)

            assert has_all(spark, place, [old, new])
            assert (moved["moved"], done.rows, again.rows) == (1, 22, 0)
            ids = [row.message_id for row in frames.lake(spark, place).collect()]
            assert len(ids) == len(set(ids)) == 52
    one.drop()


def test_lake_of_other_partitions_is_refused(
    spark: "SparkSession",
    routed: "Source",
    two: Partitions,
    owners: list[Connection],
    place: str,
) -> None:
    settle(owners[1], 10)
    export(spark, routed, place)

    with partitions.opened(two.urls[1]) as second:
        alone = export(spark, second, place)
    other_way = replace(routed, partitions=routed.partitions[::-1])
    with pytest.raises(LakeError, match="use another lake"):
        export(spark, other_way, place)

    assert (alone.rows, list(alone.until)) == (0, [1])
    assert has_all(spark, place, owners)


def test_queue_of_one_name_in_two_partitions_is_compacted_checked_and_recorded_in_each(
    spark: "SparkSession",
    routed: "Source",
    two: Partitions,
    owners: list[Connection],
    place: str,
) -> None:
    for again in range(3):
        for owner in owners:
            settle(owner, 10)
            owner.execute(AGE_AGAIN) if again else age(owner, 10)
        export(spark, routed, place, compact=False)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(session.connect(as_node(url), "test", writing=True))
            for url in two.urls
        ]
        record = [partial(history.record_archived_day, writer) for writer in writers]

        done = export(spark, routed, place, record=record)
        table = delta.open_(delta.url_of(place))
        whole = verify.check(table, routed, deep=True)
        dropped = [writers[1].execute(DROP).fetchone()]
        (file,) = (file for file in table.files if file.partition == 0)
        path = Path(table.url.removeprefix("file://"), file.path)
        copy = path.read_bytes()
        path.write_bytes(copy[:-9])
        spoilt = export(spark, routed, place, record=record)
        found = verify.check(table, routed).discrepancies
        dropped.append(writers[0].execute(DROP).fetchone())
        verify.repair(spark, place, routed, found)

    assert (done.compacted, len(done.days), whole.discrepancies) == (4, 1, [])
    assert sorted(file.partition for file in table.files) == [0, 1]
    assert (len(spoilt.damage), spoilt.days) == (1, ())
    assert [(each.queue_day.partition, each.rows) for each in found] == [(0, 30)]
    assert dropped == [(1,), (0,)]
    lake = Lake.open(spark, place)
    assert stored_rows.altered(lake.table, {each.queue_day for each in lake.files}) == {}
    counts = frames.lake(spark, place).groupBy("partition").count().collect()
    assert sorted(map(tuple, counts)) == [(0, 30), (1, 30)]


@pytest.mark.slow
def test_transactions_that_a_failover_undid_are_taken_back_of_its_partition_alone(
    spark: "SparkSession", routed: "Source", owners: list[Connection], place: str
) -> None:
    for owner in owners:
        settle(owner, 10)
    export(spark, routed, place)
    promote(place)
    owners[1].execute("delete from skipmq.history where id in (select min(id) from skipmq.history)")

    done = export(spark, routed, place)

    assert (done.taken_back, done.rows) == (10, 9)
    assert has_all(spark, place, owners)


def test_erasure_leaves_the_rows_of_each_partition_in_files_of_its_own(
    spark: "SparkSession", routed: "Source", owners: list[Connection], place: str
) -> None:
    for owner in owners:
        settle(owner, 10, HistoryMode="full")
    export(spark, routed, place)
    lake = Lake.open(spark, place)

    erased = lake.erase("body = 'body 7'", reason="test")

    assert erased == 2
    assert sorted((file.partition, file.rows) for file in lake.files) == [(0, 9), (1, 9)]
    assert stored_rows.altered(lake.table, {file.queue_day for file in lake.files}) == {}


@pytest.mark.slow
def test_export_while_writers_commit_late_in_both_misses_and_doubles_nothing(
    spark: "SparkSession",
    routed: "Source",
    two: Partitions,
    owners: list[Connection],
    place: str,
) -> None:
    with Writers(two.urls[0], 2), Writers(two.urls[1], 2):
        for _ in range(3):
            export(spark, routed, place)
    export(spark, routed, place)

    assert has_all(spark, place, owners)
    assert len(all_rows(owners)) == number(owners[0], COUNT) + number(owners[1], COUNT) > 0


def typed(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `skipmq analytics`."""
    variables = environment(settings | {"spark_master": "local[1]"}) | {"COLUMNS": "200"}
    return subprocess.run(
        [*SKIPMQ, "analytics", *words],
        env=variables | {"PYSPARK_SUBMIT_ARGS": SHORT_LIVED},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def stopped(
    embedded_databases: Databases,
    router_server: Databases,
    tmp_path_factory: pytest.TempPathFactory,
    public_folder: Path,
) -> tuple[Partitions, Path]:
    """Give partitions of which the second is stopped, with 10 rows, and the folder of its data."""
    folder = public_folder / tmp_path_factory.mktemp("stopped").name
    with servers.start(folder) as server:
        made = Partitions([embedded_databases, Databases(server)], router_server)
        with connect(made.urls[1]) as second:
            settle(second, 10, "mails")
    return made, folder


def test_partition_that_is_unavailable_does_not_hold_up_the_others(
    spark: "SparkSession", stopped: tuple[Partitions, Path], place: str
) -> None:
    made, folder = stopped
    with connect(made.urls[0]) as first, partitions.opened(as_node(made.router)) as routed:
        settle(first, 20, "tea")

        without = export(spark, routed, place)
        settle(first, 10, "tea")
        with embedded.start(folder), connect(made.urls[1]) as second:
            both = export(spark, routed, place)
            settle(first, 10, "tea")
            expected = all_rows([first, second])
        again = export(spark, routed, place)

    settings = queue_settings.from_lake(delta.url_of(place))["queue"].to_pylist()
    assert (without.rows, list(without.unavailable), list(without.until)) == (20, [1], [0])
    assert "connection" in without.unavailable[1]
    assert (both.rows, both.unavailable) == (20, {})
    assert (again.rows, list(again.unavailable)) == (10, [1])
    assert lake_rows(spark, place) == expected
    assert len(expected) == 50
    assert settings == ["mails", "tea"]


@pytest.mark.slow
def test_commands_name_the_partition_that_is_unavailable(
    stopped: tuple[Partitions, Path], place: str
) -> None:
    made, _ = stopped
    router = as_node(made.router)
    with connect(made.urls[0]) as first:
        settle(first, 20, "tea")

    exported = typed("export", "--lake", place, database_url=router)

    assert exported.returncode == 1
    assert "20 rows in 1 window, up to transaction" in " ".join(exported.stdout.split())
    last = exported.stderr.splitlines()[-1]
    assert last.startswith("skipmq: partition 1 is unavailable: connection")
    assert last.endswith("The others are exported; run this again when it is available")
