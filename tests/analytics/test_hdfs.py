"""A lake on HDFS: each row once, one writer, and a writer that dies at any step."""

import json
import signal
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skipmq.analytics import storage
from skipmq.analytics.errors import LakeError
from skipmq.analytics.export import export
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import Lake
from skipmq.analytics.storage import HadoopStorage
from support import hdfs, trees
from support.analytics import Killed, Mortal, lake_rows, rows_of, settle
from support.http import SKIPMQ, environment, eventually
from support.postgres import Connection

pytestmark = pytest.mark.slow

PATIENCE = 300
TOMORROW = date.max
# After this long HDFS gives the lease of a writer that is silent to another.
LEASE = 60


@pytest.fixture(scope="module")
def namenode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs.running(tmp_path_factory.mktemp("hdfs") / "conf") as url:
        yield url


@pytest.fixture
def lake(namenode: str, tmp_path: Path) -> str:
    """Give the path of a lake that is not there yet."""
    return f"{namenode}/{tmp_path.name}/history"


def launch(database: str, log: Path, *words: str) -> subprocess.Popen[bytes]:
    variables = environment({"database_url": database, "spark_master": "local[1]"})
    with log.open("ab") as output:
        return subprocess.Popen(
            [*SKIPMQ, "analytics", *words],
            env=variables | {"COLUMNS": "200"},
            stdout=output,
            stderr=output,
        )


def test_commands_export_to_hdfs_each_row_once_and_report_from_it(
    spark: SparkSession, database: str, owner: Connection, lake: str, tmp_path: Path
) -> None:
    log, page = tmp_path / "log", tmp_path / "report"
    settle(owner, 30, "payments")

    for count in (100, 20):
        settle(owner, count)
        assert launch(database, log, "export", "--lake", lake).wait(PATIENCE) == 0, log.read_text()
    report = launch(database, log, "report", "--output", str(page), "--lake", lake)
    assert report.wait(PATIENCE) == 0, log.read_text()

    store = storage.opened(spark, lake)
    entries = [json.loads(store.read(f"_manifest/{n}")) for n in store.names("_manifest")]
    assert isinstance(store, HadoopStorage)
    assert [entry["window"]["rows"] for entry in entries] == [130, 20]
    assert lake_rows(spark, lake) == rows_of(owner)
    assert store.names("_staging") == []
    assert "orders: 120 messages deleted" in log.read_text()
    assert (page / "report.html").stat().st_size > 50_000


def test_second_writer_on_hdfs_is_refused_and_disturbs_nothing(
    spark: SparkSession, source: Source, database: str, owner: Connection, lake: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    settle(owner, 10)
    export(spark, source, lake)
    settle(owner, 10)

    with Lake.writing(spark, lake) as first:
        begun = f"{first.storage.root}/_staging/begun"
        spark.range(10).write.parquet(begun)
        second = launch(database, log, "export", "--lake", lake).wait(PATIENCE)
        left = spark.read.parquet(begun).count()
        with pytest.raises(LakeError, match="somebody else writes"), Lake.writing(spark, lake):
            pass
    third = launch(database, log, "export", "--lake", lake).wait(PATIENCE)

    assert (second, left, third) == (1, 10, 0), log.read_text()
    assert f"Error: somebody else writes to the lake at {lake}" in log.read_text()
    assert lake_rows(spark, lake) == rows_of(owner)


def test_writer_on_hdfs_that_dies_at_any_step_has_done_all_or_nothing(
    spark: SparkSession, source: Source, owner: Connection, lake: str
) -> None:
    for _ in range(2):
        settle(owner, 10)
        export(spark, source, lake, compact=False)
    steps, done = 0, False
    while not done:
        settle(owner, 1)
        store = storage.opened(spark, lake)
        try:
            with Lake.writing(spark, Mortal(store, steps)) as mortal:
                mortal.compact(before=TOMORROW)
            done = True
        except Killed:
            steps += 1
        export(spark, source, lake, compact=False)

        assert lake_rows(spark, lake) == rows_of(owner)
        assert len(store.files("history")) == len(Lake.open(spark, lake).files)
        assert store.names("_staging") == []
    assert steps > 5


def test_export_to_hdfs_that_is_killed_gives_way_to_the_next(
    spark: SparkSession, source: Source, database: str, owner: Connection, lake: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    settle(owner, 50)
    store = HadoopStorage(spark, lake)

    process = launch(database, log, "export", "--lake", lake)
    eventually(lambda: store.names("_staging") or process.poll() is not None, PATIENCE)
    trees.kill(process.pid)
    assert process.wait() == -signal.SIGKILL, log.read_text()

    def exported() -> bool:
        try:
            export(spark, source, lake)
        except LakeError as error:
            assert "somebody else writes" in str(error)  # noqa: PT017 - the next may have it.
            return False
        return True

    eventually(exported, LEASE * 3)
    assert lake_rows(spark, lake) == rows_of(owner)
    assert store.names("_staging") == []
