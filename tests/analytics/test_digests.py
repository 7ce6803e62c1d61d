"""Digests of rows: one altered bit of a lake is found, and no day with one is dropped."""

import random
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skipmq.analytics import frames
from skipmq.analytics.errors import LakeError
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import stored_rows, verify, windows
from skipmq.analytics.lake.export import COMPARED_EVERY, export
from skipmq.analytics.lake.table_files import QueueDay
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import history
from skipmq.database import session
from support.analytics import age, lake_rows, rows_of, settle, settle_copies
from support.postgres import Connection, as_node
from support.sql import number

FLIPS = 30
DROP = "select skipmq.drop_history_partitions('7 days', true)"
# What texts and times of a history may be: each an assignment to a row.
ODD = (
    "body = E'\\u00fc\\n\\t \U0001f600 \\x1f', attributes = '{\"a\": 1}'",
    "body = '', attributes = ''",
    "settled_at = settled_at + interval '1 us', first_received_at = null",
    "sent_at = '1969-12-31 23:59:59.999999+00'",
    "group_id = 'a', deduplication_id = 'b', sender = 'c', trace_header = 'd', node = 'e'",
    "group_id = 'b', deduplication_id = 'a'",
    "receive_count = 2147483647, body_bytes = 0, id = 9223372036854775807",
    "outcome = 'dead-lettered', body = repeat('x', 300000)",
)


def flip(file: Path, chance: random.Random) -> None:
    """Flip one bit before the footer of a Parquet file."""
    content = bytearray(file.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[chance.randrange(4, len(content) - footer)] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def keys(lake: Lake) -> set[QueueDay]:
    return {file.queue_day for file in lake.files}


def files(place: str, queue: str = "*") -> list[Path]:
    return sorted((Path(place) / "history").rglob(f"queue={queue}/*.parquet"))


def test_digest_is_the_same_in_postgresql_spark_and_duckdb(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 30, HistoryMode="full")
    settle(owner, 10, "007")
    for offset, assignments in enumerate(ODD):
        row = f"(select id from skipmq.history order by id offset {offset} limit 1)"
        owner.execute(f"update skipmq.history set {assignments} where id = {row}".encode())

    # Raises LakeError if Spark's digest is not PostgreSQL's.
    export(spark, source, place)
    lake = Lake.open(spark, place)

    assert len(keys(lake)) == 2
    assert stored_rows.altered(lake.table, keys(lake)) == {}
    assert all(lake.table.digest(key) for key in keys(lake))


def test_rows_that_are_not_the_database_s_are_not_committed(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10)
    with source.connect() as reader:
        server = history.server(reader)
        ((window, plan),) = windows.windows(reader, 0, server)
    lake = Lake.create(spark, place, {0: server.database})
    view = frames.as_history(source.read(spark, "skipmq_views.history", plan.conditions))
    other = view.selectExpr("receive_count + 1 as receive_count", *_without(view, "receive_count"))

    with pytest.raises(LakeError, match="are not the 10 rows of the database"):
        lake.add(other.select(*view.columns), window)

    assert (lake.table.position(), files(place)) == (0, [])


def _without(frame: object, name: str) -> list[str]:
    return [column for column in frame.columns if column != name]  # type: ignore[attr-defined]


def test_rows_that_an_export_has_read_are_not_read_again(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10)
    with source.connect() as reader:
        server = history.server(reader)
        ((window, plan),) = windows.windows(reader, 0, server)
    lake = Lake.create(spark, place, {0: server.database})
    view = source.read(spark, "skipmq_views.history", plan.conditions)
    lake.add(frames.as_history(view), window)
    flip(files(place)[0], random.Random(7))  # noqa: S311 - which bit.

    assert lake.altered(keys(lake)) == {}
    assert Lake.open(spark, place).altered(keys(lake))


# Files that Spark wrote are in the next tests too.
@pytest.mark.parametrize("compacted", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_each_altered_bit_is_found(
    spark: SparkSession, source: Source, owner: Connection, place: str, compacted: bool
) -> None:
    for _ in range(2):
        settle(owner, 200, HistoryMode="full")
        export(spark, source, place, compact=False)
    lake = Lake.open(spark, place)
    if compacted:
        assert lake.compact(before=lake.files[0].day + timedelta(days=1)) == (1, {})
        lake.clear(0)
    file, chance = files(place)[0], random.Random(7)  # noqa: S311 - which bits.
    whole = file.read_bytes()
    expected = lake_rows(spark, place)
    shallow, missed = 0, []

    for _ in range(FLIPS):
        flip(file, chance)
        shallow += bool(stored_rows.damage(lake.table, lake.files))
        if not stored_rows.altered(lake.table, keys(lake)):
            missed.append(file.read_bytes())
        file.write_bytes(whole)

    assert shallow < FLIPS / 2
    assert len(missed) < FLIPS / 10
    # Bits that no value depends on, such as those of a page's header.
    for content in missed:
        file.write_bytes(content)
        assert lake_rows(spark, place) == expected == rows_of(owner)


@pytest.mark.parametrize("recorded_before", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_day_with_an_altered_row_is_not_dropped(
    spark: SparkSession,
    source: Source,
    database: str,
    owner: Connection,
    place: str,
    recorded_before: bool,
) -> None:
    settle(owner, 300)
    settle(owner, 10, "mails")
    age(owner, 10)
    with session.connect(as_node(database), "test", writing=True) as writer:
        record = [partial(history.record_archived_day, writer)]
        export(spark, source, place, record=record if recorded_before else ())
        # As if that was long ago.
        owner.execute(
            "update skipmq.archived_day set archived_at = archived_at - %s", (COMPARED_EVERY,)
        )
        (file,) = files(place, "orders")
        whole, lake = file.read_bytes(), Lake.open(spark, place)
        chance = random.Random(1)  # noqa: S311 - which bits.
        while not stored_rows.altered(lake.table, keys(lake)):
            file.write_bytes(whole)
            flip(file, chance)

        altered = export(spark, source, place, record=record)
        dropped = [writer.execute(DROP).fetchone()]
        file.write_bytes(whole)
        again = export(spark, source, place, record=record)
        dropped.append(writer.execute(DROP).fetchone())

    assert (altered.days, len(altered.damage)) == ((), 1)
    assert file.name in altered.damage[0]
    assert (len(again.days), again.damage) == (1, ())
    assert dropped == [(0,), (1,)]


def test_small_files_with_an_altered_row_are_not_compacted(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    for _ in range(2):
        settle(owner, 200)
        export(spark, source, place, compact=False)
    lake, chance = Lake.open(spark, place), random.Random(1)  # noqa: S311 - which bits.
    whole = files(place)[0].read_bytes()
    while not stored_rows.altered(lake.table, keys(lake)):
        files(place)[0].write_bytes(whole)
        flip(files(place)[0], chance)

    saved, problems = lake.compact(before=lake.files[0].day + timedelta(days=1))

    assert (saved, problems.keys()) == (0, keys(lake))


def test_digests_follow_an_erasure_a_rewind_and_a_repair(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 20, HistoryMode="full")
    settle(owner, 10, "mails")
    export(spark, source, place)
    settle(owner, 10)
    export(spark, source, place)
    lake = Lake.open(spark, place)

    lake.erase("body = 'body 7'", reason="test")
    found = [stored_rows.altered(lake.table, keys(lake))]
    lake.rewind(lake.table.windows(timedelta(hours=1))[-1])
    found.append(stored_rows.altered(lake.table, keys(lake)))
    owner.execute("delete from skipmq.history where body = 'body 7'")
    export(spark, source, place)
    (orders,) = (key for key in keys(lake) if key[1] == "orders")
    there = len(rows_of(owner)) - 10
    missing = verify.Discrepancy(orders, 0, verify.Asked.MORE, there)
    verify.repair(spark, place, source, [missing])
    lake.table.reopen()
    found.append(stored_rows.altered(lake.table, keys(lake)))

    assert found == [{}, {}, {}]
    assert lake_rows(spark, place) == rows_of(owner)


def test_record_is_repeated_without_reading_until_half_a_day_has_passed(
    spark: SparkSession, source: Source, database: str, owner: Connection, place: str
) -> None:
    settle(owner, 10)
    settle_copies(owner, 1_000_000, 100)
    age(owner, 10)
    at = "select archived_at from skipmq.archived_day"
    with session.connect(as_node(database), "test", writing=True) as writer:
        record = [partial(history.record_archived_day, writer)]
        moments = []
        for back in (None, timedelta(), COMPARED_EVERY):
            if back is not None:
                owner.execute(
                    "update skipmq.archived_day set archived_at = archived_at - %s", (back,)
                )
            before = back is not None and number(owner, at)
            days = export(spark, source, place, record=record).days
            moments.append((len(days), number(owner, at) != before))

    assert moments == [(1, True), (1, False), (1, True)]
