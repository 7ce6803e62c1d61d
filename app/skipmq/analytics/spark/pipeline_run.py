"""Runs of the pipeline on local Spark, into a folder.

OUTPUT/tables/{bronze,silver,hourly_latency,…}/part-….parquet
OUTPUT/metastore, OUTPUT/checkpoints, OUTPUT/project
"""

import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.spark import environment

_PROJECT = Path(__file__).parents[1] / "pipeline"
_STORAGE = "file:///var/lib/skipmq/pipeline"
_VIOLATED = re.compile(r"expectation violated: (.*?)(?: SQLSTATE|$)")


class ViolationError(AnalyticsError):
    """The tables are not as the database has counted."""


def table(output: Path, name: str) -> Path:
    """Return the folder of a table."""
    return output / "tables" / name


def configuration(output: Path) -> dict[str, str]:
    """Return the settings of a session of Spark that runs the pipeline for this folder.

    It serves Spark Connect on the loopback, to clients with the token of this process.
    """
    environment.prepare_spark_connect()
    place = output.absolute()
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        # The catalog that has the tables of the last run.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (place / "tables").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={place / 'metastore'};create=true"
        ),
    }


def run(
    spark: SparkSession,
    output: Path,
    url: str,
    callback: Callable[[str], None],
    *,
    refresh: bool = False,
) -> None:
    """Bring the tables in a folder up to date; call `callback` with each line of the run's output.

    With `refresh` make them again, of the history that the database still has. The session must
    have the settings of `configuration`. Raises ViolationError if an expectation is violated,
    AnalyticsError if the run fails or another one is running.
    """
    with exclusive(output):
        project = output / "project"
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(_PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
        spec = project / "spark-pipeline.yml"
        storage = (output / "checkpoints").absolute().as_uri()
        spec.write_text(spec.read_text().replace(_STORAGE, storage))
        lines = []
        with subprocess.Popen(
            [
                *(sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)),
                *(["--full-refresh-all"] if refresh else []),
            ],
            env=environment.spark_client(_served(spark), url),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as client:  # fmt: skip
            assert client.stdout is not None
            for line in client.stdout:
                callback(line.rstrip())
                lines.append(line.strip())
        if client.returncode:
            raise _failure(lines)


def _served(spark: SparkSession) -> str:
    """Return the URL of the session's server."""
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's only access to the server's port.
    # The catalog's database, which is opened later, would log to the current folder.
    jvm.System.setProperty("derby.stream.error.file", "/dev/null")
    service = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return f"sc://localhost:{getattr(service, 'MODULE$').localPort()}"


@contextmanager
def exclusive(output: Path) -> Iterator[None]:
    """Lock the folder during the block.

    Raises AnalyticsError if another process has locked it.
    """
    output.mkdir(parents=True, exist_ok=True)
    with (output / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AnalyticsError(
                f"another run of the pipeline uses {output}: try again when it has ended"
            ) from error
        yield


def _failure(lines: Sequence[str]) -> AnalyticsError:
    for line in lines:
        if violated := _VIOLATED.search(line):
            return ViolationError(violated[1])
    return AnalyticsError(next((line for line in reversed(lines) if line), "Spark failed"))
