"""One Spark session for all tests of the analytics: a second start would cost ten seconds."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from skipmq.config.settings import Settings
from support.analytics import SHORT_LIVED
from support.http import eventually
from support.programs import need
from support.sql import number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

# Seconds that a test may take, on a machine with much else to do.
LONGEST = 240


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    need("java")
    from skipmq.analytics import session  # noqa: PLC0415 - only when a test asks for it.

    # The JVM reads it when it starts, and those of commands do.
    os.environ["PYSPARK_SUBMIT_ARGS"] = SHORT_LIVED  # noqa: TID251
    started = session.start(Settings(spark_master="local[2]"), "skipmq tests")
    started.sparkContext.setLogLevel("ERROR")
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()


@pytest.fixture
def database(database: str) -> str:
    """Give a fresh database; not at the end of a day (UTC), as the history is kept by days."""
    left = (
        "select extract(epoch from date_trunc('day', t, 'UTC') + interval '1 day' - t)"
        " from clock_timestamp() t"
    )
    with psycopg.connect(database, autocommit=True) as connection:
        eventually(lambda: number(connection, left) > LONGEST, 2 * LONGEST, "the next day")
    return database


@pytest.fixture
def source(database: str) -> Iterator["Source"]:
    """Give the test's database as Spark reads it."""
    from skipmq.analytics import jdbc  # noqa: PLC0415 - PySpark is an extra.

    with jdbc.opened(database) as found:
        yield found


@pytest.fixture(scope="session")
def databases(embedded_databases: object) -> object:
    """Use one PostgreSQL: what differs between them is tested in tests/sql."""
    return embedded_databases


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Give the path of a lake that is not there yet."""
    return str(tmp_path / "lake")
