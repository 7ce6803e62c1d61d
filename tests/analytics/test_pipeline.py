"""The pipeline project and the example, on a lake with messages in it."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

import pyspark

import skipmq
from skipmq.analytics import export
from support.postgres import Connection
from support.programs import need

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

ANALYTICS = Path(skipmq.__file__).parent / "analytics"
SPARK = Path(pyspark.__file__).parent
# Seconds that the pipeline may take to start, on a machine with other work.
LONG = 900
# The catalog that keeps its tables for the next run.
CATALOG = ("--conf", "spark.sql.catalogImplementation=hive")


@pytest.fixture
def lake(spark: "SparkSession", source: "Source", owner: Connection, tmp_path: Path) -> Path:
    """Give a lake of two messages that were deleted."""
    owner.execute("select skipmq.create_queue('orders', '{\"HistoryMode\": \"full\"}')")
    for body in ('{"price": 2.5}', "x"):
        owner.execute("select skipmq.send_message('orders', %s)", (body,))
    owner.execute(
        "select skipmq.delete_messages(skipmq.queue_id('orders'), array_agg(id),"
        " array_agg(receive_count)) from skipmq.receive_messages(skipmq.queue_id('orders'), 10)"
    )
    export.export(spark, source, str(tmp_path / "lake"))
    return tmp_path / "lake"


def pipelines(command: str, lake: Path, folder: Path) -> str:
    """Run a command of spark-pipelines on a copy of the project; return what it said."""
    need("java")
    project = folder / "project"
    if not project.exists():
        shutil.copytree(ANALYTICS / "pipeline", project)
        spec = project / "spark-pipeline.yml"
        spec.write_text(
            spec.read_text().replace("/var/lib/skipmq/pipeline", str(folder / "storage"))
        )
    environment = dict(os.environ) | {  # noqa: TID251 - Spark reads it.
        "SKIPMQ_ARCHIVE": str(lake),
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ANALYTICS.parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("PYSPARK_SUBMIT_ARGS", None)
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    done = subprocess.run(
        [SPARK / "bin" / "spark-pipelines", command, "--driver-memory", "1g", *CATALOG],
        cwd=project, env=environment, capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_pipeline_is_valid(lake: Path, tmp_path: Path) -> None:
    assert "Run is COMPLETED" in pipelines("dry-run", lake, tmp_path)


@pytest.mark.slow
def test_pipeline_writes_the_hourly_tables_also_when_it_is_run_again(
    spark: "SparkSession", lake: Path, tmp_path: Path
) -> None:
    outputs = [pipelines("run", lake, tmp_path) for _ in range(2)]

    assert all("Run is COMPLETED" in output for output in outputs)
    (latency,) = (tmp_path / "project").rglob("hourly_latency")
    assert [row["deleted"] for row in spark.read.parquet(str(latency)).collect()] == [2]
    assert [*(tmp_path / "project").rglob("slow_hours")]


def test_example_runs_from_top_to_bottom(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SKIPMQ_ARCHIVE", str(lake))

    runpy.run_path(str(ANALYTICS / "examples" / "explore.py"))

    output = capsys.readouterr().out
    assert "|orders|deleted|       2|" in output
    assert "OBJECT<price: DECIMAL(2,1)>" in output
