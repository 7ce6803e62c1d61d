"""One Spark session for all tests of the analytics: a second start would cost ten seconds."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.programs import need

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    need("java")
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only when a test asks for it.

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # noqa: TID251 - Spark reads it.
    os.environ["PYSPARK_PYTHON"] = sys.executable  # noqa: TID251 - Spark reads it.
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # A frame of ten rows is computed sooner than code for it is compiled.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .getOrCreate()
    )
    yield session
    session.stop()
