"""What the analytics commands open: a Spark session, the database and the lake."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import click

from skipmq.analytics.postgres import history
from skipmq.cli.analytics.errors import DUCKDB, check_spark
from skipmq.cli.environment import data_folder, open_database
from skipmq.cli.output import out
from skipmq.config.settings import Settings
from skipmq.database import embedded, schema, session
from skipmq.database.router.partition_map import owner_urls
from skipmq.database.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.delta import Table
    from skipmq.analytics.jdbc import Source


@contextmanager
def spark_started(
    settings: Settings, configuration: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """Yield a Spark session; raise click.ClickException if PySpark or Java is missing.

    It is the active session of a program that runs a command, else one for the command alone, which
    further settings of Spark demand.
    """
    check_spark(settings.spark_master)
    from skipmq.analytics.spark import session as spark_session  # noqa: PLC0415 - PySpark is an extra.

    if (active := spark_session.active()) is not None:
        if configuration:
            raise click.ClickException("this needs a session of Spark of its own: run it alone")
        yield active
        return
    with out.status("starting Spark"), _captured_standard_error() as captured:
        try:
            spark = spark_session.start(settings, configuration=configuration)
        except Exception as error:
            captured.seek(0)
            lines = captured.read().decode("utf-8", "replace").splitlines()
            reason = next((line for line in lines if "Exception" in line), str(error))
            raise click.ClickException(f"Spark did not start: {reason.strip()}") from error
    # Errors are shown in one line, without the stack traces in Spark's logs.
    spark.sparkContext.setLogLevel("FATAL")
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).disabled = True
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _captured_standard_error() -> Iterator[IO[bytes]]:
    """Redirect standard error to a file, including that of a JVM started in the block."""
    standard_error = 2
    with TemporaryFile() as file:
        saved = os.dup(standard_error)
        os.dup2(file.fileno(), standard_error)
        try:
            yield file
        finally:
            os.dup2(saved, standard_error)
            os.close(saved)


class Opened(ExitStack):
    """What a command reads and writes, each opened when it is asked for, until the block ends."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    @cached_property
    def _urls(self) -> tuple[str, str]:
        """The URLs of the owner and of nodes."""
        return self.enter_context(open_database(self._settings))

    @cached_property
    def urls(self) -> tuple[str, str]:
        """The URLs of the database to read and of the nodes' database.

        Raises click.ClickException if SKIPMQ_ANALYTICS_URL cannot be read or is of another
        database, and the errors of schema.check.
        """
        _, url = self._urls
        schema.check(url)
        if other := self._settings.analytics_url:
            _check_readable(other, url)
        reader = self._settings.database_url or session.as_role(url, "skipmq_reader")
        return other or reader, url

    def spark_and_database(self) -> tuple["SparkSession", "Source"]:
        """Return a Spark session and the database to read.

        Raises like `urls`, and click.ClickException if PySpark or Java is missing.
        """
        check_spark(self._settings.spark_master, DUCKDB)
        url, _ = self.urls
        spark = self.enter_context(spark_started(self._settings))
        return spark, self._source(url)

    def spark_and_watched_database(self) -> tuple["SparkSession", "Source"]:
        """Return a Spark session and a database all of which is read.

        Raises like `spark_and_database`. The block raises session.Unavailable if one freezes.
        """
        spark, source = self.spark_and_database()
        from skipmq.analytics.jdbc import watched  # noqa: PLC0415 - as above.

        self.enter_context(watched(spark, source))
        return spark, source

    def spark_and_source(self, lake: str | None) -> tuple["SparkSession", "Source | None"]:
        """Return a Spark session, and the database unless only a lake is configured."""
        if lake and not (self._settings.analytics_url or self._settings.database_url):
            return self.enter_context(spark_started(self._settings)), None
        return self.spark_and_watched_database()

    def database_of(self, table: "Table") -> "Source | None":
        """Return the database to compare a lake with.

        None if there is none, or an embedded one of another lake. Raises like `urls`.
        """
        if url := self._settings.analytics_url or self._settings.database_url:
            return self._source(url)
        system = embedded.status(data_folder(self._settings)).system
        if system is None or not any(d.startswith(f"{system}/") for d in table.databases.values()):
            return None
        return self._source(self.urls[0])

    def writers(self, *, as_owner: bool = False) -> list[Session]:
        """Connect as the role of SKIPMQ_DATABASE_URL, or as the owner of the embedded database.

        Behind a router to all partitions; `as_owner` as the role that made the router's map.
        """
        from skipmq.analytics.partitions import routed  # noqa: PLC0415 - as above.

        url, _ = self._urls
        urls = [url]
        if (found := routed(url)) is not None:
            urls = owner_urls(url)[0] if as_owner else found
        return [
            self.enter_context(session.connect(each, "skipmq analytics", writing=True))
            for each in urls
        ]

    def _source(self, url: str) -> "Source":
        from skipmq.analytics import partitions  # noqa: PLC0415 - as above.

        return self.enter_context(partitions.opened(url))


def _check_readable(url: str, own: str) -> None:
    """Check that a URL is of the nodes' databases, and can be read; raise click.ClickException."""
    from skipmq.analytics import partitions  # noqa: PLC0415 - PySpark is an extra.

    name = "SKIPMQ_ANALYTICS_URL"
    other = click.ClickException(
        f"{name} is of another database than that of the nodes: set it to a standby of theirs, or"
        " to the same router"
    )
    try:
        found, nodes = partitions.urls(url), partitions.urls(own)
        if len(found) != len(nodes):
            raise other
        for each, node in zip(found, nodes, strict=True):
            # The others are read while a partition is unavailable.
            with suppress(*[session.Unavailable] if each != url else []):
                read = _read(each)
                with session.connect(node, "skipmq analytics", writing=True) as connection:
                    if history.identity(connection) != read:
                        raise other
    except session.Unavailable as error:
        raise click.ClickException(session.explain(error, name)) from error
    except session.Error as error:
        raise click.ClickException(
            f"{name} is not a database of SkipMQ, or its role may not read it (skipmq_reader may)"
        ) from error


def _read(url: str) -> str:
    with session.connect(url, "skipmq analytics") as connection:
        history.queue_settings(connection, ["queue"])
        return history.identity(connection)


def lake_path(settings: Settings, option: str | None) -> str:
    """Return the path of the lake; raise click.UsageError if none is configured."""
    if not (option or settings.archive):
        raise click.UsageError("specify the lake: --lake DIR, or SKIPMQ_ARCHIVE")
    return option or settings.archive


def lake_table(spark: "SparkSession", lake: str | None) -> "Table | None":
    """Return the table of a lake that Spark reads; raise LakeError if there is no lake."""
    from skipmq.analytics.lake.tables import Lake  # noqa: PLC0415 - PySpark is an extra.

    return Lake.open(spark, lake).table if lake else None
