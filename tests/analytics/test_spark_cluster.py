"""The commands and the source on a cluster of Spark, with executors in processes of their own."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from deltalake import DeltaTable

import skipmq.__main__ as program
from skipmq.analytics import delta
from support import trees
from support.analytics import FACTS, rows_of, settle, settle_copies
from support.postgres import Connection, as_reader
from support.programs import need, not_here
from support.spark_cluster import PATIENCE, PROGRAMS, SparkCluster, started
from support.sql import number

pytestmark = pytest.mark.slow

SUBMIT = str(PROGRAMS / "spark-submit")
# A user's job: what README.md shows, and a sink.
JOB = """
import sys
from pyspark.sql import SparkSession

url, place = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
settled = spark.readStream.format("skipmq").options(url=url, maxRowsPerTrigger=25).load()
writer = settled.writeStream.format("parquet").option("checkpointLocation", place + "/checkpoint")
writer.trigger(availableNow=True).start(place + "/out").awaitTermination()
"""
# Rows of history that nobody would send one by one: a task of an export has 250,000 at most.
MANY = 30_000, 10


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    need("java")
    with started(tmp_path_factory.mktemp("spark")) as found:
        yield found


@contextmanager
def running(
    cluster: SparkCluster, database: str, *words: str, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command with the database as its owner, until it or the block ends."""
    settings = {"SKIPMQ_DATABASE_URL": database, "COLUMNS": "200"} | variables
    with (
        (cluster.folder / "out").open("wb") as out,
        (cluster.folder / "err").open("wb") as err,
        subprocess.Popen(
            words, env=cluster.environment(**settings), stdout=out, stderr=err
        ) as process,
    ):
        try:
            yield process
        finally:
            trees.kill(process.pid)


def said(cluster: SparkCluster, process: subprocess.Popen[bytes]) -> str:
    """Return what a command printed, when it has ended well."""
    code = process.wait(PATIENCE)
    assert code == 0, (cluster.folder / "err").read_text()
    return (cluster.folder / "out").read_text()


def refused(cluster: SparkCluster, database: str, *words: str, **variables: str) -> str:
    """Run a command that has to fail; return the line that says why."""
    with running(cluster, database, *words, **variables) as process:
        assert process.wait(PATIENCE) == 1
    # Under spark-submit what a program says as an error is part of what it prints.
    out = (cluster.folder / "out").read_text() + (cluster.folder / "err").read_text()
    assert "Traceback" not in out
    (line,) = re.findall("^skipmq: (.*)$", out, re.MULTILINE)
    return str(line)


def run(cluster: SparkCluster, database: str, *words: str, **variables: str) -> str:
    with running(cluster, database, *words, **variables) as process:
        return said(cluster, process)


def submit(cluster: SparkCluster, database: str, *words: str) -> str:
    """Run `skipmq analytics` with spark-submit; return what it said."""
    return run(cluster, database, *submitted(cluster, *words), PYSPARK_PYTHON=sys.executable)


def submitted(cluster: SparkCluster, *words: str) -> tuple[str, ...]:
    driver = ("--jars", "/usr/share/java/postgresql.jar")
    return (SUBMIT, "--master", cluster.url, *driver, program.__file__, "analytics", *words)


def on_executors(cluster: SparkCluster) -> bool:
    """Tell whether the last application had tasks, and all in processes other than its driver."""
    where = {executor for _, executor in cluster.ends_of_tasks()}
    return bool(where) and "driver" not in where


def rows_in(lake: Path) -> list[tuple[Any, ...]]:
    """Return the facts of a lake's rows in the order of ids, without Spark."""
    table = DeltaTable(lake / "history").to_pyarrow_table(columns=FACTS.split(", "))
    return sorted(tuple(row.values()) for row in table.to_pylist())


def counted(lake: Path) -> int:
    """Return how many rows the windows have that were committed."""
    found = delta.open_(delta.url_of(str(lake))).windows(timedelta(hours=1))
    return sum(window.rows for window in found)


def test_submitted_commands_export_report_and_replay_each_row_once(
    cluster: SparkCluster, database: str, owner: Connection, tmp_path: Path
) -> None:
    orders = settle(owner, 120, HistoryMode="full")
    lake, page = tmp_path / "lake", tmp_path / "report"
    replay = ("replay", "--where", "body <> 'body 7'", "--to", "orders", "--lake", str(lake),
              "--yes", "--json")  # fmt: skip

    first = submit(cluster, database, "export", "--lake", str(lake))
    assert on_executors(cluster)
    next_ = submit(cluster, database, "export", "--lake", str(lake))
    output = submit(cluster, database, "report", "--output", str(page), "--lake", str(lake))
    assert on_executors(cluster)
    sent, again = (json.loads(submit(cluster, database, *replay)) for _ in range(2))

    assert "120 rows in 1 window," in first
    assert "nothing new" in next_
    assert counted(lake) == len(rows_of(owner)) == 120
    assert rows_in(lake) == rows_of(owner)
    assert "orders: 120 messages deleted" in output
    assert 'data-chart="latency-plots"' in (page / "report.html").read_text()
    assert (sent["sent"], again["sent"], again["sent_before"]) == (119, 0, 119)
    assert orders.counts() == (119, 0, 0)
    ids = "select count(distinct message_id) from skipmq.message where queue_id = %s"
    assert number(owner, ids, orders.id) == 119


def test_setting_names_a_master_of_a_cluster(
    cluster: SparkCluster, database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 20)

    output = run(
        cluster, database, sys.executable, "-m", "skipmq", "analytics", "export",
        "--lake", str(tmp_path / "lake"), SKIPMQ_SPARK_MASTER=cluster.url,
    )  # fmt: skip

    assert "20 rows in 1 window," in output
    assert on_executors(cluster)
    assert rows_in(tmp_path / "lake") == rows_of(owner)


def test_export_goes_on_when_a_worker_is_killed_that_writes(
    cluster: SparkCluster, database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 10)
    rows, transactions = MANY
    for begin in range(transactions):
        settle_copies(owner, 1_000_000 * (begin + 1), rows)
    lake = tmp_path / "lake"

    words = submitted(cluster, "export", "--lake", str(lake))
    with running(cluster, database, *words, PYSPARK_PYTHON=sys.executable) as export:
        cluster.kill_who_writes(lake / "history")
        cluster.add_worker()
        said(cluster, export)

    assert "ExecutorLostFailure" in {end for end, _ in cluster.ends_of_tasks()}
    assert on_executors(cluster)
    assert counted(lake) == rows * transactions + 10
    assert rows_in(lake) == rows_of(owner)


def test_job_of_a_user_follows_what_is_settled_each_row_once(
    cluster: SparkCluster, database: str, owner: Connection, tmp_path: Path
) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    words = (SUBMIT, "--master", cluster.url, str(job), as_reader(database), str(tmp_path))

    for count in (60, 30):
        settle(owner, count)
        run(cluster, database, *words, PYSPARK_PYTHON=sys.executable)

        assert on_executors(cluster)
        table = pyarrow.dataset.dataset(tmp_path / "out").to_table(FACTS.split(", "))
        assert sorted(tuple(row.values()) for row in table.to_pylist()) == rows_of(owner)
    assert len(rows_of(owner)) == 90


def test_folder_that_only_the_driver_has_is_refused(
    cluster: SparkCluster, database: str, owner: Connection
) -> None:
    if not cluster.apart:
        not_here("workers see all files of this machine: only root can give them others")
    settle(owner, 10)
    python = {"PYSPARK_PYTHON": sys.executable}

    place = cluster.alone / "export"
    output = refused(
        cluster, database, *submitted(cluster, "export", "--lake", str(place)), **python
    )

    assert output.startswith(f"Spark's executors cannot access {place.as_uri()} of this")
    assert list(place.rglob("*.parquet")) == []


def test_what_a_cluster_lacks_is_told_in_a_line(
    cluster: SparkCluster, database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 10)
    undriven = (SUBMIT, "--master", cluster.url, program.__file__, "analytics")
    report = submitted(cluster, "report", "--output", str(tmp_path / "report"))
    ours = {"PYSPARK_DRIVER_PYTHON": sys.executable}

    no_driver = refused(
        cluster, database, *undriven, "export", "--lake", str(tmp_path / "lake"),
        PYSPARK_PYTHON=sys.executable,
    )  # fmt: skip
    run(cluster, database, *report, PYSPARK_PYTHON=str(tmp_path / "none"), **ours)

    assert no_driver.startswith(
        "Spark has no driver for PostgreSQL: run spark-submit with --packages"
    )
    assert on_executors(cluster)
