"""A lake on HDFS: each row once, one writer, and a writer that dies at any step."""

import signal
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from skipmq.analytics import delta
from skipmq.analytics.errors import ConflictError
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import table_log
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.tables import Lake
from support import hdfs, trees
from support.analytics import lake_rows, rows_of, settle
from support.http import SKIPMQ, environment, eventually
from support.postgres import Connection

pytestmark = pytest.mark.slow

PATIENCE = 300


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

    windows = delta.open_(lake).windows(timedelta(hours=1))
    assert [window.rows for window in windows] == [130, 20]
    assert lake_rows(spark, lake) == rows_of(owner)
    assert "orders: 120 messages deleted" in log.read_text()
    assert 'data-chart="latency-plots"' in (page / "report.html").read_text()


def test_of_two_writers_on_hdfs_one_has_written(
    spark: SparkSession, source: Source, owner: Connection, lake: str
) -> None:
    settle(owner, 10)
    export(spark, source, lake)
    first, second = Lake.open(spark, lake), Lake.open(spark, lake)

    first.erase("body = 'body 1'", reason="first")
    with pytest.raises(ConflictError):
        second.table.commit("second")
    export(spark, source, lake)

    assert first.frame().count() == 10


def test_export_to_hdfs_that_is_killed_gives_way_to_the_next(
    spark: SparkSession, source: Source, database: str, owner: Connection, lake: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    settle(owner, 50)
    files = table_log.files(lake)

    def has_begun_to_write() -> bool:
        there = files.get_file_info(fs.FileSelector("history", allow_not_found=True))
        return any("/export-" in info.path for info in there)

    process = launch(database, log, "export", "--lake", lake)
    eventually(lambda: has_begun_to_write() or process.poll() is not None, PATIENCE)
    trees.kill(process.pid)
    assert process.wait() == -signal.SIGKILL, log.read_text()

    export(spark, source, lake)

    assert lake_rows(spark, lake) == rows_of(owner)
