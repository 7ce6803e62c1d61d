"""One Spark session for all tests of the analytics: a second start would cost ten seconds."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from skipmq.config.settings import Settings
from support import forks, servers
from support.analytics import SHORT_LIVED
from support.clock import connect
from support.http import eventually
from support.partitions import Partitions
from support.postgres import Connection, Databases, as_reader
from support.programs import need
from support.sql import number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

# Of a few rows nothing is learned that makes the next stage of a query a better one. The default
# manager of checkpoints starts a program for each file, to read a link or set a mode.
CONFIGURATION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}
# Seconds that a test may take, on a machine with much else to do.
LONGEST = 240


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give PySpark's folder without its archive of itself.

    Spark's Python workers would import that, and compile it at each start, which doubles their
    cost; they import the installed package.
    """
    import pyspark  # noqa: PLC0415 - an extra.

    folder = tmp_path_factory.mktemp("spark")
    for name in ("bin", "jars"):
        (folder / name).symlink_to(Path(pyspark.__file__).parent / name)
    return folder


@pytest.fixture(scope="session")
def spark_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the Python of Spark's workers; those of streams are forks, a query has one."""
    folder = tmp_path_factory.mktemp("workers") / "commands"
    with forks.commands(folder, forks.Streaming) as made:
        yield made / "python"


@pytest.fixture(scope="session")
def spark(spark_home: Path, spark_python: Path) -> Iterator["SparkSession"]:
    need("java")
    from skipmq.analytics.spark import session  # noqa: PLC0415 - only when a test asks for it.

    # The JVM reads them when it starts, and those of commands do.
    os.environ["PYSPARK_SUBMIT_ARGS"] = SHORT_LIVED  # noqa: TID251
    os.environ["SPARK_HOME"] = str(spark_home)  # noqa: TID251
    os.environ["PYSPARK_PYTHON"] = str(spark_python)  # noqa: TID251
    started = session.start(Settings(spark_master="local[2]"), "skipmq tests", CONFIGURATION)
    started.sparkContext.setLogLevel("ERROR")
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()


@pytest.fixture
def database(database: str) -> str:
    """Give a fresh database; not at the end of a day (UTC), as the history is kept by days."""
    _wait_for_day(database)
    return database


def _wait_for_day(database: str) -> None:
    """Wait for the next day (UTC) where this one ends within a test."""
    left = (
        "select extract(epoch from date_trunc('day', t, 'UTC') + interval '1 day' - t)"
        " from clock_timestamp() t"
    )
    with psycopg.connect(database, autocommit=True) as connection:
        eventually(lambda: number(connection, left) > LONGEST, 2 * LONGEST, "the next day")


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


@pytest.fixture(scope="session")
def second_server(server_folder: Path) -> Iterator[Databases]:
    """Give a server of its own, which has other transactions of the same numbers.

    Nor is it of the cluster of `embedded_databases`, whose databases are known by that.
    """
    with servers.start(server_folder / "second", ephemeral=True) as server:
        yield Databases(server)


@pytest.fixture
def two(
    embedded_databases: Databases, second_server: Databases, router_server: Databases
) -> Iterator[Partitions]:
    """Give two partitions on two servers."""
    made = Partitions([embedded_databases, second_server], router_server)
    _wait_for_day(made.urls[0])
    yield made
    made.drop()


@pytest.fixture
def owners(two: Partitions) -> Iterator[list[Connection]]:
    """Give connections of the owner to the two partitions."""
    with ExitStack() as stack:
        yield [stack.enter_context(connect(url)) for url in two.urls]


@pytest.fixture
def routed(two: Partitions) -> Iterator["Source"]:
    """Give the two partitions as Spark reads them, by the address of their router."""
    from skipmq.analytics import partitions  # noqa: PLC0415 - PySpark is an extra.

    with partitions.opened(as_reader(two.router)) as found:
        yield found
