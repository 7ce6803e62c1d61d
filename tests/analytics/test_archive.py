"""The archive: which days an export records, so that the database may drop them."""

import shutil
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from skipmq.analytics import frames
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import forget, verify
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import history
from skipmq.database import session
from support.analytics import age, settle
from support.postgres import Connection, as_node
from support.sql import number


def test_days_that_are_over_are_recorded_and_may_then_be_dropped(
    spark: SparkSession, source: Source, database: str, owner: Connection, place: str
) -> None:
    settle(owner, 20)
    age(owner, 10)
    settle(owner, 5)
    drop = "select skipmq.drop_history_partitions('7 days', true)"
    with session.connect(as_node(database), "test", writing=True) as writer:
        dropped = [writer.execute(drop).fetchone()]

        done = export(spark, source, place, record=[partial(history.record_archived_day, writer)])
        dropped.append(writer.execute(drop).fetchone())

    assert dropped == [(0,), (1,)]
    assert len(done.days) == 1
    assert number(owner, "select count(*) from skipmq.history") == 5
    assert frames.lake(spark, place).count() == 25


def test_lake_that_is_not_the_archive_lets_no_day_be_dropped(
    spark: SparkSession, source: Source, database: str, owner: Connection, place: str
) -> None:
    settle(owner, 20)
    age(owner, 10)
    trial = f"{place} of a trial"
    drop = "select skipmq.drop_history_partitions('7 days', true)"
    with session.connect(as_node(database), "test", writing=True) as writer:
        record = [partial(history.record_archived_day, writer)]
        first = export(spark, source, place, record=record)
        other = export(spark, source, trial, record=record)
        recorded = number(owner, "select place from skipmq_views.archived_day")
        # Nothing is replaced by a lake that has not recorded a day.
        refused = history.record_archived_day(
            writer, date(2020, 1, 1), 1, 0, "third", "", replaces=True
        )
        replacing = [partial(history.record_archived_day, writer, replaces=True)]
        replaced = export(spark, source, trial, record=replacing, replaces=True)
        dropped = writer.execute(drop).fetchone()
        former = export(spark, source, place, record=record)

    assert (len(first.days), first.archive) == (1, "")
    assert (other.days, other.archive) == ((), recorded)
    assert not refused
    assert (len(replaced.days), replaced.archive, dropped) == (1, "", (1,))
    assert former.archive.endswith(trial)


def test_lake_that_has_less_than_was_dropped_is_named(
    spark: SparkSession, source: Source, database: str, owner: Connection, place: str
) -> None:
    export(spark, source, place)
    shutil.copytree(place, f"{place}-backup")
    settle(owner, 20)
    age(owner, 10)
    with session.connect(as_node(database), "test", writing=True) as writer:
        record = [partial(history.record_archived_day, writer)]
        export(spark, source, place, record=record)
        # Before and after the day is dropped.
        list(forget.erase([owner], Lake.open(spark, place), "queue = 'orders' and id % 3 = 0"))
        writer.execute("select skipmq.drop_history_partitions('7 days', true)")
        list(forget.erase([owner], Lake.open(spark, place), "queue = 'orders' and id % 2 = 0"))
        kept = frames.lake(spark, place).count()
        erased = export(spark, source, place, record=record)
        shutil.rmtree(place)
        shutil.copytree(f"{place}-backup", place)
        restored = export(spark, source, place, record=record)
    found = verify.check(Lake.open(spark, place).table, source).discrepancies

    assert (0 < kept < 14, erased.lost) == (True, ())
    (text,) = restored.lost
    assert f"has 0 of the {kept} rows of " in text
    assert [(each.queue_day.queue, each.problems) for each in found] == [("*", [text])]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def overwrite(file: Path) -> None:
    file.write_bytes(b"x" * file.stat().st_size)


def shorten(file: Path) -> None:
    """Replace a file by one of fewer rows and, with a gap before its footer, of the same size."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - it comes with PySpark, an extra.

    size = file.stat().st_size
    shorter = pq.ParquetFile(file).read().slice(1).replace_schema_metadata()
    options = {"store_schema": False, "write_statistics": False, "use_dictionary": False}
    pq.write_table(shorter, file, compression="zstd", **options)
    content = file.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    gap = size - len(content)
    assert gap >= 0
    file.write_bytes(content[:-footer] + bytes(gap) + content[-footer:])


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "is missing": Path.unlink,
    "bytes of": truncate,
    "has a damaged footer": overwrite,
    "has 59 rows of 60": shorten,
}
# All one after the other, of which the first finds the day recorded; and each alone.
KINDS = [tuple(DAMAGE), *(pytest.param((kind,), marks=pytest.mark.slow) for kind in DAMAGE)]


@pytest.mark.parametrize("recorded_before", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kinds", KINDS)
def test_day_whose_file_is_damaged_is_not_dropped(
    spark: SparkSession,
    source: Source,
    database: str,
    owner: Connection,
    place: str,
    kinds: tuple[str, ...],
    recorded_before: bool,
) -> None:
    settle(owner, 60)
    settle(owner, 10, "mails")
    age(owner, 10)
    drop = "select skipmq.drop_history_partitions('7 days', true)"
    with session.connect(as_node(database), "test", writing=True) as writer:
        record = [partial(history.record_archived_day, writer)]
        first = export(spark, source, place, record=record if recorded_before else ())
        (file,) = (Path(place) / "history").glob("*/day=*/queue=orders/*.parquet")
        copy = file.read_bytes()
        spoilt, dropped = {}, []
        for kind in kinds:
            DAMAGE[kind](file)
            spoilt[kind] = export(spark, source, place, record=record)
            dropped.append(writer.execute(drop).fetchone())
            file.write_bytes(copy)

        whole = export(spark, source, place, record=record)
        dropped.append(writer.execute(drop).fetchone())
        after = export(spark, source, place, record=record)

    assert len(first.days) == recorded_before
    for kind, each in spoilt.items():
        assert (each.days, len(each.damage)) == ((), 1)
        assert f"{file.name} " in each.damage[0]
        assert kind in each.damage[0]
    assert (len(whole.days), whole.damage) == (1, ())
    assert dropped == [*[(0,)] * len(kinds), (1,)]
    assert (after.days, after.damage) == ((), ())
    assert frames.lake(spark, place).count() == 70
