"""The lake read by a client of Spark Connect, which has no JVM."""

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from skipmq.analytics.lake.export import export
from support.analytics import settle
from support.postgres import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

SECONDS = 420
CLIENT = """
import sys
from pyspark.sql import SparkSession
from skipmq.analytics import frames
spark = SparkSession.builder.remote("local[1]").getOrCreate()
assert not hasattr(spark, "_jvm")
print(frames.lake(spark, sys.argv[1], queues=["orders"]).where("id > 0").count())
"""


@pytest.mark.slow
def test_client_of_spark_connect_reads_the_lake(
    spark: "SparkSession", source: "Source", owner: Connection, place: str
) -> None:
    settle(owner, 20)
    settle(owner, 10, "mails")
    export(spark, source, place)

    done = subprocess.run(
        [sys.executable, "-c", CLIENT, place],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["20"]
