"""Commands of `skipmq analytics` in processes of their own, which start Spark and are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from support import trees
from support.analytics import SHORT_LIVED
from support.postgres import as_reader
from support.processes import until_gone

# A user's job that writes what is settled to a folder, batch after batch, or all that there is.
STREAM = """
import sys
from pyspark.sql import SparkSession

url, place, trigger = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
settled = spark.readStream.format("skipmq").options(url=url, maxRowsPerTrigger=300).load()
writer = settled.writeStream.format("parquet").option("checkpointLocation", place + "/_checkpoint")
when = {"availableNow": True} if trigger == "once" else {"processingTime": trigger}
writer.trigger(**when).start(place).awaitTermination()
"""
# Seconds that a command may take, on a machine with other work.
PATIENCE = 600


def launch(
    database: str, log: Path, *arguments: str, owner: bool = False
) -> subprocess.Popen[bytes]:
    """Start a command of `skipmq analytics`, as the owner or a node, that writes to a log."""
    return _started(database, log, "-m", "skipmq", "analytics", *arguments, owner=owner)


def stream(database: str, log: Path, place: Path, trigger: str) -> subprocess.Popen[bytes]:
    """Start the job STREAM: its trigger is `once` or a time between batches."""
    return _started(database, log, "-c", STREAM, as_reader(database), str(place), trigger)


def _started(
    database: str, log: Path, *arguments: str, owner: bool = False
) -> subprocess.Popen[bytes]:
    others = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=others
            | {
                "SKIPMQ_DATABASE_URL": (
                    database if owner else as_reader(database).replace("reader", "node")
                ),
                "SKIPMQ_SPARK_MASTER": "local[1]",
                "PYSPARK_SUBMIT_ARGS": SHORT_LIVED,
            },
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def kill_when(process: subprocess.Popen[bytes], fact: Callable[[], object], log: Path) -> None:
    """Kill a driver, its JVM too, as soon as something is so."""
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            # Asked first: what makes the fact true may be the last that it does.
            has_ended = process.poll() is not None
            if fact():
                break
            assert not has_ended, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.005)
    finally:
        dying = trees.trees([process.pid])
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for each in dying:
            until_gone(each.pid)
