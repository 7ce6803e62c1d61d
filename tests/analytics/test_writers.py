"""Those who write to a lake: two at once, one that erases, and one that died."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from skipmq.analytics import frames
from skipmq.analytics.errors import ConflictError
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import forget, windows
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import history
from support.analytics import lake_rows, rows_of, settle
from support.postgres import Connection


def test_of_two_writers_one_has_written(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10)
    export(spark, source, place)
    settle(owner, 20)
    with source.connect() as reader:
        server = history.server(reader)
        first, second = Lake.open(spark, place), Lake.open(spark, place)
        ((window, plan),) = windows.windows(reader, first.table.position(), server)
    view = source.read(spark, "skipmq_views.history", plan.conditions)
    first.add(frames.as_history(view), window)

    with pytest.raises(ConflictError, match="another writer has committed"):
        second.add(frames.as_history(view), window)

    assert lake_rows(spark, place) == rows_of(owner)
    folders = [folder.name for folder in (Path(place) / "history").glob("export-*")]
    assert sorted(folders) == sorted({file.path.split("/")[0] for file in first.files})


def test_of_exports_at_once_those_that_do_not_write_find_nothing_new_or_a_conflict(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10)
    export(spark, source, place)
    settle(owner, 100)

    def exported(_: int) -> int:
        try:
            return export(spark, source, place).rows
        except ConflictError:
            return 0

    with ThreadPoolExecutor() as threads:
        rows = list(threads.map(exported, range(3)))

    assert sorted(rows) == [0, 0, 100]
    assert lake_rows(spark, place) == rows_of(owner)


def test_commit_whose_answer_was_lost_is_known_to_be_made(
    spark: SparkSession, source: Source, owner: Connection, place: str, monkeypatch: Any
) -> None:
    settle(owner, 10)
    made = DeltaTable.create_write_transaction

    def lose_the_answer(*arguments: Any, **options: Any) -> None:
        made(*arguments, **options)
        raise DeltaError("connection reset")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lose_the_answer)

    done = export(spark, source, place)

    assert done.rows == 10
    assert lake_rows(spark, place) == rows_of(owner)


def test_export_that_read_before_an_erasure_does_not_write_after_it(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10, HistoryMode="full")
    export(spark, source, place)
    settle(owner, 10)
    late = Lake.open(spark, place)
    with source.connect() as reader:
        ((window, plan),) = windows.windows(reader, late.table.position(), history.server(reader))
    view = source.read(spark, "skipmq_views.history", plan.conditions).persist()
    view.count()

    erased = dict(forget.erase([owner], Lake.open(spark, place), "body like 'no such'"))

    with pytest.raises(ConflictError):
        late.add(frames.as_history(view), window)
    view.unpersist()
    assert erased == {"lake": 0}


def test_erasure_leaves_the_files_of_writers_that_begin_after_it(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10, HistoryMode="full")
    export(spark, source, place)
    root = Path(place) / "history"
    files = [root / f"export-{n}" / "day=2026-11-21" / "queue=orders" / "a.parquet" for n in "123"]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"rows")
    commit = root / "_delta_log" / "00000000000000000002.json"
    hour = 3_600_000_000_000
    os.utime(files[1], ns=(0, files[1].stat().st_mtime_ns - hour))
    os.utime(files[2], ns=(0, files[2].stat().st_mtime_ns + hour))

    Lake.open(spark, place).erase("body = 'body 1'", reason="test")

    assert commit.exists()
    assert [file.exists() for file in files] == [False, False, True]
    assert frames.lake(spark, place).count() == 9


def test_what_a_writer_that_died_has_left_is_removed_a_day_later(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10)
    export(spark, source, place)
    left = Path(place) / "history" / "export-dead"
    half = left / "_temporary" / "0" / "day=2026-11-21" / "queue=orders" / "part-0.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    lake = Lake.open(spark, place)

    lake.clear()
    there = [half.exists()]
    os.utime(half, (0, 0))
    lake.clear()
    there.append(left.exists())

    assert there == [True, False]
    assert lake_rows(spark, place) == rows_of(owner)


def test_error_after_a_commit_leaves_its_files(
    spark: SparkSession, source: Source, owner: Connection, place: str, monkeypatch: Any
) -> None:
    settle(owner, 10)
    export(spark, source, place)
    settle(owner, 20)
    lake = Lake.open(spark, place)
    with source.connect() as reader:
        ((window, plan),) = windows.windows(reader, lake.table.position(), history.server(reader))
    view = source.read(spark, "skipmq_views.history", plan.conditions)

    def lose_the_table() -> None:
        raise OSError("connection reset")

    monkeypatch.setattr(lake.table, "reopen", lose_the_table)
    with pytest.raises(OSError, match="connection reset"):
        lake.add(frames.as_history(view), window)

    assert lake_rows(spark, place) == rows_of(owner)
