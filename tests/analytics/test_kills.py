"""Drivers that die: by kill -9 while messages move, and at every single step of a commit."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from skipmq.analytics import delta, frames
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import forget
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.tables import Lake
from support.analytics import (
    FACTS,
    Writers,
    all_rows,
    lake_rows,
    rows_of,
    settle,
)
from support.drivers import PATIENCE, kill_when, launch, stream
from support.forks import OnHistory
from support.partitions import Partitions
from support.postgres import Connection

# Moments at which a process is killed, from its beginning to its end.
MOMENTS = 4
TIDY = """
import sys
from skipmq.analytics import delta
table = delta.open_(delta.url_of(sys.argv[1]))
(day,) = {file.day for file in table.files}
print("one day", flush=True)
table.compact(day, ["orders"], 1 << 20)
table.compact(day, ["mails"], 1 << 20)
table.vacuum(0, full=True)
"""


def rows_in(place: Path) -> int:
    """Count the rows in the files of a lake; -1 when one is there twice."""
    table = delta.open_(delta.url_of(str(place)))
    files = [parquet.ParquetFile(place / delta.NAME / file.path) for file in table.files]
    ids = [number for file in files for number in file.read(["id"])["id"].to_pylist()]
    return len(ids) if len(ids) == len(set(ids)) else -1


@pytest.mark.parametrize("moments", [MOMENTS, pytest.param(4 * MOMENTS, marks=pytest.mark.slow)])
def test_writer_that_is_killed_at_any_moment_has_done_all_or_nothing(
    spark: SparkSession, source: Source, owner: Connection, tmp_path: Path, moments: int
) -> None:
    begun = tmp_path / "begun"
    for _ in range(2):
        settle(owner, 10)
        settle(owner, 10, "mails")
        export(spark, source, str(begun), compact=False)
    whole = tmp_path / "whole"
    copytree(begun, whole)
    seconds = tidying(whole)
    for moment in range(moments):
        place = tmp_path / f"lake-{moment}"
        copytree(begun, place)
        tidying(place, seconds * moment / moments)
        found = rows_in(place)
        lake = Lake.open(spark, str(place))
        left = len(lake.files)
        lake.clear(0)
        on_disk = len(list((place / "history").rglob("*.parquet")))

        assert (found, rows_in(place)) == (40, 40)
        assert left == on_disk
        assert left in {2, 3, 4}
    assert rows_in(whole) == 40
    assert len(Lake.open(spark, str(whole)).files) == 2


def tidying(place: Path, until: float | None = None) -> float:
    """Compact and clear up a lake in a process that is killed so late; return how long it took."""
    words = [sys.executable, "-c", TIDY, str(place)]
    with OnHistory(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        days = process.stdout.readline()
        begin = time.monotonic()
        if until is not None:
            time.sleep(until)
            process.kill()
        process.wait(PATIENCE)
    assert days == "one day\n"
    assert until is not None or process.returncode == 0
    return time.monotonic() - begin


def lake_is_whole(spark: SparkSession, place: Path, owner: Connection) -> None:
    found = frames.lake(spark, str(place)).select(*FACTS.split(", ")).orderBy("id", "xid").collect()
    assert [tuple(row) for row in found] == rows_of(owner)


@pytest.mark.slow
@pytest.mark.parametrize("done", ["history/_delta_log/*1.json", "history/export-*/*"])
def test_export_killed_while_four_write_misses_and_doubles_nothing(
    spark: SparkSession,
    source: Source,
    database: str,
    owner: Connection,
    tmp_path: Path,
    done: str,
) -> None:
    place, log = tmp_path / "lake", tmp_path / "log"
    with Writers(database):
        process = launch(database, log, "export", "--lake", str(place))
        kill_when(process, lambda: any(place.glob(done)), log)

    export(spark, source, str(place))

    lake_is_whole(spark, place, owner)


@pytest.mark.slow
def test_forget_erases_what_a_killed_export_has_left(
    spark: SparkSession, source: Source, database: str, owner: Connection, tmp_path: Path
) -> None:
    place, log = tmp_path / "lake", tmp_path / "log"
    settle(owner, 30, HistoryMode="full")
    process = launch(database, log, "export", "--lake", str(place))
    kill_when(process, lambda: any(place.glob("history/export-*/day=*/*/*.parquet")), log)
    left = [str(file) for file in place.glob("history/export-*/**/*.parquet")]
    read = spark.read.schema(HISTORY).parquet(*left).where("body like 'body 1%'").count()
    lake = Lake.open(spark, str(place))

    erased = dict(forget.erase([owner], lake, "body like 'body 1%'"))

    assert (lake.files, read) == ([], 11)
    assert erased == {"history": 11, "lake": 0}
    assert list(place.glob("history/**/*.parquet")) == []
    assert export(spark, source, str(place)).rows == 19


@pytest.mark.slow
def test_export_killed_again_and_again_misses_and_doubles_nothing(
    spark: SparkSession, source: Source, database: str, owner: Connection, tmp_path: Path
) -> None:
    place, log = tmp_path / "lake", tmp_path / "log"
    chance = random.Random(7)  # noqa: S311 - moments to kill at.
    with Writers(database):
        for _ in range(8):
            begun = time.monotonic()
            process = launch(database, log, "export", "--lake", str(place))
            wait = chance.uniform(4, 14)
            # On a fast machine it may have ended before that.
            kill_when(
                process,
                lambda b=begun, w=wait, p=process: time.monotonic() > b + w or p.poll() is not None,
                log,
            )
            export(spark, source, str(place))

    export(spark, source, str(place))

    lake_is_whole(spark, place, owner)


@pytest.mark.slow
def test_stream_killed_while_four_write_misses_and_doubles_nothing(
    spark: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    place, log = tmp_path / "out", tmp_path / "log"
    with Writers(database):
        for batch in (0, 1):
            process = stream(database, log, place, "100 milliseconds")
            kill_when(process, (place / "_checkpoint" / "offsets" / str(batch)).exists, log)

    last = stream(database, log, place, "once")
    assert last.wait(PATIENCE) == 0, log.read_text()

    found = spark.read.schema(HISTORY).parquet(str(place)).select(*FACTS.split(", "))
    assert [tuple(row) for row in found.orderBy("id", "xid").collect()] == rows_of(owner)


def partitions_are_whole(spark: SparkSession, place: Path, owners: list[Connection]) -> None:
    assert lake_rows(spark, str(place)) == all_rows(owners)


@pytest.mark.slow
def test_export_killed_between_two_partitions_misses_and_doubles_nothing(
    spark: SparkSession,
    two: Partitions,
    routed: Source,
    owners: list[Connection],
    tmp_path: Path,
) -> None:
    place, log = tmp_path / "lake", tmp_path / "log"
    with Writers(two.urls[0], 2), Writers(two.urls[1], 2):
        process = launch(two.router, log, "export", "--lake", str(place))
        kill_when(process, lambda: any(place.glob("history/_delta_log/*1.json")), log)

    done = export(spark, routed, str(place))

    assert done.rows > 0
    partitions_are_whole(spark, place, owners)


@pytest.mark.slow
def test_export_of_partitions_killed_at_each_step_misses_and_doubles_nothing(
    spark: SparkSession,
    two: Partitions,
    routed: Source,
    owners: list[Connection],
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    facts: tuple[Callable[[Path], bool], ...] = (
        # Written and committed of the first, then of the second, then compacted and cleared.
        lambda place: any(place.glob("history/export-*/*")),
        lambda place: any(place.glob("history/_delta_log/*1.json")),
        lambda place: len([*place.glob("history/export-*")]) > 1,
        lambda place: any(place.glob("history/_delta_log/*2.json")),
        lambda place: (place / "queues" / "_delta_log").exists(),
    )
    with Writers(two.urls[0], 2), Writers(two.urls[1], 2):
        for step, fact in enumerate(facts):
            place = tmp_path / f"lake-{step}"
            process = launch(two.router, log, "export", "--lake", str(place))
            kill_when(process, partial(fact, place), log)
            again = launch(two.router, log, "export", "--lake", str(place))
            assert again.wait(PATIENCE) == 0, log.read_text()

    for step in range(len(facts)):
        export(spark, routed, str(tmp_path / f"lake-{step}"))
        partitions_are_whole(spark, tmp_path / f"lake-{step}", owners)


@pytest.mark.slow
def test_stream_of_partitions_killed_while_both_write_misses_and_doubles_nothing(
    spark: SparkSession, two: Partitions, owners: list[Connection], tmp_path: Path
) -> None:
    place, log = tmp_path / "out", tmp_path / "log"
    with Writers(two.urls[0], 2), Writers(two.urls[1], 2):
        for batch in (0, 1):
            process = stream(two.router, log, place, "100 milliseconds")
            kill_when(process, (place / "_checkpoint" / "offsets" / str(batch)).exists, log)

    last = stream(two.router, log, place, "once")
    assert last.wait(PATIENCE) == 0, log.read_text()

    found = spark.read.schema(HISTORY).parquet(str(place)).select(*FACTS.split(", "))
    rows = [tuple(row) for row in found.orderBy("id", "xid").collect()]
    assert rows == all_rows(owners)
