"""One Spark for all tests, and databases with a history."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from skipmq.analytics import jdbc, session
from skipmq.analytics.jdbc import Source
from skipmq.config import Settings
from support.postgres import Connection, Databases, as_reader
from support.programs import need


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    need("java")
    started = session.start(Settings(spark_master="local[2]"), "skipmq tests")
    started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()


@pytest.fixture
def database(embedded_databases: Databases) -> Iterator[str]:
    """Give the owner's URL of a fresh database of the embedded server alone."""
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.fixture
def owner(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def source(database: str) -> Iterator[Source]:
    """Give the database as a reader has it."""
    with jdbc.opened(as_reader(database)) as found:
        yield found


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Give the path of a lake that is not there yet."""
    return str(tmp_path / "lake")
