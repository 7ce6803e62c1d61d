"""Runs of the pipeline on local Spark, each into a folder of its own.

OUTPUT/tables -> run-5f1c…/tables/{hourly_latency,…}/part-….parquet
"""

import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from pyspark.sql import SparkSession

from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.spark import environment, spark_errors

_PROJECT = Path(__file__).parents[1] / "pipeline"
_RUN, _TABLES = "run-", "tables"
_KEPT = "the tables of the last run are as they were"
_STORAGE = "file:///var/lib/skipmq/pipeline"
_VIOLATED = re.compile(r"expectation violated: (.*?)(?: SQLSTATE|$)")


def table(output: Path, name: str) -> Path:
    """Return the folder of a table of the last run that succeeded."""
    return output / _TABLES / name


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """Yield a new folder for a run, whose tables replace the present ones if the block succeeds.

    Those stay until the next run, for who reads them. Raises AnalyticsError if another process has
    locked the folder.
    """
    output.mkdir(parents=True, exist_ok=True)
    with (output / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AnalyticsError(
                f"another run of the pipeline uses {output}: try again when it has ended"
            ) from error
        present, link = output / _TABLES, output / ".tables"
        if present.exists() and not present.is_symlink():
            raise AnalyticsError(f"{present} is not of a run of this pipeline: use another folder")
        for old in output.glob(f"{_RUN}*"):
            if old != present.resolve().parent:
                shutil.rmtree(old)
        run = output.resolve() / f"{_RUN}{token_hex(4)}"
        run.mkdir()
        try:
            yield run
        except BaseException:
            shutil.rmtree(run)
            raise
        link.unlink(missing_ok=True)
        link.symlink_to(Path(run.name) / _TABLES)
        link.replace(present)


def configuration(folder: Path) -> dict[str, str]:
    """Return the settings of a session of Spark that runs the pipeline into this folder.

    It serves Spark Connect on the loopback, to clients with the token of this process.
    """
    environment.prepare_spark_connect()
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.warehouse.dir": (folder / _TABLES).as_uri(),
    }


def run(
    spark: SparkSession,
    folder: Path,
    variables: dict[str, str],
    callback: Callable[[str], None],
) -> None:
    """Make the tables in a new folder; call `callback` with each line of the run's output.

    `variables` are those of the lake and the database. The session must have the settings of
    `configuration`. Raises AnalyticsError if the run fails or an expectation is violated.
    """
    project = folder / "project"
    shutil.copytree(_PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    spec = project / "spark-pipeline.yml"
    storage = (folder / "checkpoints").as_uri()
    spec.write_text(spec.read_text().replace(_STORAGE, storage))
    lines = []
    with subprocess.Popen(
        [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)],
        env=environment.spark_client(_served(spark)) | variables,
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
    service = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return f"sc://localhost:{getattr(service, 'MODULE$').localPort()}"


def _failure(lines: Sequence[str]) -> AnalyticsError:
    for line in lines:
        if violated := _VIOLATED.search(line):
            return AnalyticsError(
                f"expectation violated: {violated[1]}: run `skipmq analytics export`, which also"
                f" takes back what a failover has undone, and this again; {_KEPT}"
            )
    reason = spark_errors.first_reason("\n".join(lines))
    return AnalyticsError(f"{reason}; {_KEPT}")
