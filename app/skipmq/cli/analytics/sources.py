"""The sources of the analytics commands: a Spark session, the database and the lake."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import click

from skipmq.analytics.postgres import history
from skipmq.cli.analytics.errors import DUCKDB, check_spark
from skipmq.cli.environment import open_database
from skipmq.cli.output import out
from skipmq.config.settings import Settings
from skipmq.database import schema, session

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


@contextmanager
def spark_and_database(
    settings: Settings,
) -> Iterator[tuple["SparkSession", "Source", str]]:
    """Yield a Spark session, the database to read, and the URL of the nodes' database.

    Raises click.ClickException if PySpark or Java is missing or SKIPMQ_ANALYTICS_URL cannot be
    read, and the errors of schema.check.
    """
    check_spark(settings.spark_master, DUCKDB)
    with ExitStack() as stack:
        reader, url = stack.enter_context(readable_database(settings))
        spark = stack.enter_context(spark_started(settings))
        from skipmq.analytics import partitions  # noqa: PLC0415 - as above.

        yield spark, stack.enter_context(partitions.opened(reader)), url


@contextmanager
def spark_and_watched_database(
    settings: Settings,
) -> Iterator[tuple["SparkSession", "Source"]]:
    """Yield a Spark session and a database all of which is read.

    Raises like `spark_and_database`, and session.Unavailable if a database freezes meanwhile.
    """
    with spark_and_database(settings) as (spark, source, _):
        from skipmq.analytics.lake.watch import watched  # noqa: PLC0415 - as above.

        with watched(spark, source):
            yield spark, source


@contextmanager
def readable_database(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the URLs of the database to read and of the nodes' database.

    Raises click.ClickException if SKIPMQ_ANALYTICS_URL cannot be read or is of another database,
    and like schema.check.
    """
    with open_database(settings) as (_, url):
        schema.check(url)
        if settings.analytics_url:
            _check_readable(settings.analytics_url, url)
        reader = settings.database_url or session.as_role(url, "skipmq_reader")
        yield settings.analytics_url or reader, url


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


@contextmanager
def spark_and_source(
    settings: Settings, lake: str | None
) -> Iterator[tuple["SparkSession", "Source | None"]]:
    """Yield a Spark session, and the database unless only a lake is configured."""
    if lake and not (settings.analytics_url or settings.database_url):
        with spark_started(settings) as spark:
            yield spark, None
        return
    with spark_and_watched_database(settings) as (spark, source):
        yield spark, source


def lake_path(settings: Settings, option: str | None) -> str:
    """Return the path of the lake; raise click.UsageError if none is configured."""
    if not (option or settings.archive):
        raise click.UsageError("specify the lake: --lake DIR, or SKIPMQ_ARCHIVE")
    return option or settings.archive


def lake_table(spark: "SparkSession", lake: str | None) -> "Table | None":
    """Return the table of a lake that Spark reads; raise LakeError if there is no lake."""
    from skipmq.analytics.lake.tables import Lake  # noqa: PLC0415 - PySpark is an extra.

    return Lake.open(spark, lake).table if lake else None
