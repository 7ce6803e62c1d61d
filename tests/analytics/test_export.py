"""The export: each row once, whatever happens meanwhile."""

import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from skipmq.analytics import frames
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.errors import LakeError
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import forget, verify
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import history
from skipmq.database import session
from support.analytics import Writers, age, lake_rows, promote, rows_of, settle
from support.http import eventually
from support.postgres import Connection, Databases
from support.sql import Queue, number


def test_export_writes_every_column_as_the_view_has_it(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 20, HistoryMode="full")
    settle(owner, 10, "mails")

    done = export(spark, source, place)

    lake, direct = frames.lake(spark, place), frames.history(spark, source, bodies=True)
    assert (done.rows, done.windows) == (30, 1)
    assert lake.schema.names == direct.schema.names == HISTORY.names
    assert [f.dataType for f in lake.schema] == [f.dataType for f in direct.schema]
    assert sorted(map(str, lake.collect())) == sorted(map(str, direct.collect()))
    assert {row.body for row in lake.where("queue = 'mails'").collect()} == {None}
    assert sorted(folder.name for folder in (Path(place) / "history").glob("*/day=*/*")) == [
        "queue=mails",
        "queue=orders",
    ]


def test_export_again_adds_only_what_is_new(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 20)
    export(spark, source, place)
    lake = Lake.open(spark, place)
    (window,) = lake.table.windows(timedelta(hours=1))
    # The commit says what the database counted.
    assert (window.rows, window.digest) == (20, lake.table.digest(lake.files[0].queue_day))
    assert lake.table.position() == window.until
    assert [(file.queue, file.rows) for file in lake.files] == [("orders", 20)]

    nothing = export(spark, source, place)
    settle(owner, 10)
    more = export(spark, source, place)

    assert (nothing.rows, nothing.windows, more.rows) == (0, 0, 10)
    assert lake_rows(spark, place) == rows_of(owner)


def test_export_leaves_out_what_lies_behind_an_open_transaction_until_it_ends(
    spark: SparkSession, source: Source, database: str, owner: Connection, place: str
) -> None:
    orders = settle(owner, 10)
    orders.send("late")
    with psycopg.connect(database) as other:
        orders.on(other).delete(*orders.on(other).receive())
        settle(owner, 10)

        early = export(spark, source, place)
    late = export(spark, source, place)

    assert (early.rows, late.rows) == (10, 11)
    assert lake_rows(spark, place) == rows_of(owner)


def test_export_while_four_write_and_commit_late_misses_and_doubles_nothing(
    spark: SparkSession, source: Source, database: str, owner: Connection, place: str
) -> None:
    runs: list[int] = []
    final = (
        "select count(*) from skipmq.history"
        " where xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    )
    with Writers(database):
        for _ in range(5):
            eventually(lambda: number(owner, final) > sum(runs), why="there is more to export")
            runs.append(export(spark, source, place).rows)
    last = export(spark, source, place).rows

    assert lake_rows(spark, place) == rows_of(owner)
    assert sum(runs) + last == number(owner, "select count(*) from skipmq.history")
    assert all(runs)


def test_export_at_a_rate_pauses_for_as_long_as_its_rows_take(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 300)
    begun = time.monotonic()
    done = export(spark, source, place, rate=100)

    # No pause is shorter than it should be, so this takes no less on any machine.
    assert time.monotonic() - begun > 2 * 300 / 100
    assert done.rows == 300
    assert lake_rows(spark, place) == rows_of(owner)


def test_tasks_share_the_rate_of_a_read(spark: SparkSession) -> None:
    begun = time.monotonic()
    paced = frames.paced(spark.range(0, 2000, 1, 2), 1000, 2)

    assert paced.agg({"id": "sum"}).collect()[0][0] == sum(range(2000))
    assert time.monotonic() - begun >= 2000 / 1000


def test_export_of_another_database_into_a_lake_is_refused(
    spark: SparkSession,
    source: Source,
    owner: Connection,
    embedded_databases: Databases,
    place: str,
) -> None:
    from skipmq.analytics import jdbc  # noqa: PLC0415

    settle(owner, 10)
    export(spark, source, place)
    other = embedded_databases.migrated()

    with jdbc.opened(other) as elsewhere, pytest.raises(LakeError, match="use another lake"):
        export(spark, elsewhere, place)

    embedded_databases.drop(other)


def test_lake_that_is_not_there_is_said_to_be_missing(spark: SparkSession, place: str) -> None:
    with pytest.raises(LakeError, match="no lake at"):
        frames.lake(spark, place)


def test_files_of_a_queue_and_day_with_a_damaged_one_are_not_put_together(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    for _ in range(2):
        settle(owner, 10)
        age(owner, 10)
        export(spark, source, place, compact=False)
    (lost, *left) = sorted((Path(place) / "history").rglob("*.parquet"))
    lost.unlink()

    done = export(spark, source, place)

    assert len(left) == 1
    assert (done.compacted, len(done.damage)) == (0, 1)


def test_files_of_a_day_that_is_over_are_put_together(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    for _ in range(2):
        settle(owner, 10)
        settle(owner, 10, "mails")
        export(spark, source, place, compact=False)
    before = lake_rows(spark, place)

    lake = Lake.open(spark, place)
    day = lake.files[0].day
    kept, _ = lake.compact(before=day)
    fewer, _ = lake.compact(before=day.replace(year=day.year + 1))
    lake.clear(0)

    assert (kept, fewer) == (0, 2)
    assert len(list((Path(place) / "history").rglob("*.parquet"))) == 2
    assert lake_rows(spark, place) == before == rows_of(owner)


def test_clock_that_was_ahead_for_a_time_doubles_and_drops_nothing(
    spark: SparkSession, source: Source, owner: Connection, database: str, place: str
) -> None:
    with session.connect(database, "test", writing=True) as writer:
        record = [partial(history.record_archived_day, writer)]
        settle(owner, 10)
        age(owner, -2)
        ahead = export(spark, source, place, record=record)
        settle(owner, 10, "mails")
        back = export(spark, source, place, record=record)

    assert (ahead.rows, back.rows) == (10, 10)
    # A day that is to come is not over.
    assert ahead.days == back.days == ()
    assert lake_rows(spark, place) == rows_of(owner)
    assert verify.check(Lake.open(spark, place).table, source, deep=True).discrepancies == []


def test_reading_a_span_and_queues_gives_the_same_from_both(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10)
    age(owner, 2)
    settle(owner, 20)
    since = number(owner, "select clock_timestamp() - interval '1 day'")
    settle(owner, 30, "mails")
    export(spark, source, place)
    wanted: dict[str, Any] = {"since": since, "queues": ["orders"]}

    counts = [
        frames.lake(spark, place, **wanted).count(),
        frames.history(spark, source, **wanted).count(),
    ]

    assert counts == [20, 20]
    assert frames.lake(spark, place, until=since).count() == 10
    assert frames.history(spark, source, until=since).count() == 10


def test_erased_rows_are_in_no_file_any_more(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 20, HistoryMode="full")
    settle(owner, 10, "mails")
    export(spark, source, place)
    (untouched,) = (Path(place) / "history").glob("*/day=*/queue=mails/*")

    lake = Lake.open(spark, place)
    erased = lake.erase("body like 'body 1%'", reason="request 7")
    again = lake.erase("body like 'body 1%'", reason="request 7")

    files = list((Path(place) / "history").rglob("*.parquet"))
    assert (erased, again) == (11, 0)
    assert frames.lake(spark, place).count() == 19
    assert spark.read.parquet(*map(str, files)).where("body like 'body 1%'").count() == 0
    assert untouched in files


def test_what_was_forgotten_is_not_taken_for_what_a_failover_undid(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10, HistoryMode="full")
    settle(owner, 10, "mails")
    export(spark, source, place, compact=False)
    settle(owner, 20)
    export(spark, source, place, compact=False)
    lake = Lake.open(spark, place)
    erased = dict(forget.erase([owner], lake, "body like 'body 1%' or queue = 'mails'"))
    kept = sorted((Path(place) / "history").rglob("*.parquet"))
    promote(place)
    settle(owner, 10)

    done = export(spark, source, place, compact=False)

    assert erased == {"history": 22, "lake": 22}
    assert (done.rows, done.taken_back) == (10, 0)
    assert {*kept} < {*(Path(place) / "history").rglob("*.parquet")}
    assert lake_rows(spark, place) == rows_of(owner)
    assert len(rows_of(owner)) == 28


UNDONE = {
    # What a standby that was promoted had not got.
    "missing": "delete from skipmq.history where id in (select id from skipmq.history limit 3)",
    # What was settled after that under the same ids, in transactions of the same numbers.
    "replaced": "update skipmq.history set settled_at = settled_at + interval '1 us'"
    " where id in (select id from skipmq.history limit 3)",
    "nothing": "select",
}


@pytest.mark.parametrize(
    ("undone", "taken_back"),
    [
        pytest.param("missing", {10, 20, 30}, marks=pytest.mark.slow),
        ("replaced", {10, 20, 30}),
        pytest.param("nothing", {0}, marks=pytest.mark.slow),
    ],
)
def test_transactions_that_a_failover_undid_are_taken_back(
    spark: SparkSession,
    source: Source,
    owner: Connection,
    place: str,
    undone: str,
    taken_back: set[int],
) -> None:
    settle(owner, 10)
    export(spark, source, place)
    settle(owner, 20)
    export(spark, source, place)
    owner.execute(UNDONE[undone].encode())
    promote(place)
    Queue(owner)

    done = export(spark, source, place)

    assert done.taken_back in taken_back
    assert lake_rows(spark, place) == rows_of(owner)
    assert len(rows_of(owner)) == (27 if undone == "missing" else 30)
    lake, direct = frames.lake(spark, place), frames.history(spark, source, bodies=True)
    assert sorted(map(str, lake.collect())) == sorted(map(str, direct.collect()))
