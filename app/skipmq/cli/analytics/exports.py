"""The commands `analytics export` and `analytics stream`, and their Spark session."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import date
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from skipmq.analytics.postgres import history
from skipmq.cli.analytics import lineage
from skipmq.cli.analytics.errors import DUCKDB, check_spark, one_line_errors
from skipmq.cli.environment import configuration, open_database
from skipmq.cli.output import out
from skipmq.config.settings import Settings
from skipmq.database import schema, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.export import Summary
    from skipmq.analytics.jdbc import Source


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@contextmanager
def spark_started(settings: Settings) -> Iterator["SparkSession"]:
    """Yield a Spark session; raise click.ClickException if PySpark or Java is missing."""
    check_spark(settings.spark_master)
    from skipmq.analytics import session as spark_session  # noqa: PLC0415 - PySpark is an extra.

    with out.status("starting Spark"), _captured_standard_error() as captured:
        try:
            spark = spark_session.start(settings)
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
        _, url = stack.enter_context(open_database(settings))
        schema.check(url)
        if settings.analytics_url:
            _check_readable(settings.analytics_url)
        spark = stack.enter_context(spark_started(settings))
        from skipmq.analytics import jdbc  # noqa: PLC0415 - as above.

        reader = settings.database_url or session.as_role(url, "skipmq_reader")
        yield spark, stack.enter_context(jdbc.opened(settings.analytics_url or reader)), url


def _check_readable(url: str) -> None:
    name = "SKIPMQ_ANALYTICS_URL"
    try:
        with session.connect(url, "skipmq analytics") as connection:
            history.queue_settings(connection, ["queue"])
    except session.Unavailable as error:
        raise click.ClickException(session.explain(error, name)) from error
    except session.Error as error:
        raise click.ClickException(
            f"{name} is not a database of SkipMQ, or its role may not read it (skipmq_reader may)"
        ) from error


def lake_path(settings: Settings, option: str | None) -> str:
    """Return the path of the lake; raise click.UsageError if none is configured."""
    if not (option or settings.archive):
        raise click.UsageError("specify the lake: --lake DIR, or SKIPMQ_ARCHIVE")
    return option or settings.archive


@click.command("export")
@click.option("--lake", help="Local folder or Hadoop path (default: SKIPMQ_ARCHIVE).")
@click.option("--compact/--no-compact", default=True, help="Compact small files.")
@click.option("--keep", type=click.IntRange(1), help="Expire older days (UTC) from the lake.")
@JSON
@one_line_errors
def export_command(*, lake: str | None, compact: bool, keep: int | None, as_json: bool) -> None:
    """Export the messages settled since the last export to the lake, each row once.

    An export can be killed and repeated at any time. Days that are complete in the lake, with all
    rows as the database had them, are recorded in the database, which may then drop them. --keep
    DAYS removes older days from the lake, once the database has dropped them. The exit code is 0
    also if there was nothing to export.
    """
    settings = configuration().settings
    path = lake_path(settings, lake)
    with (
        spark_and_database(settings) as (spark, source, url),
        lineage.recorded(
            "export",
            [lineage.database_view(url, "history")],
            [lineage.folder(path, "history")],
        ) as run,
    ):
        from skipmq.analytics import export  # noqa: PLC0415 - as above.

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("transactions"))
        with Progress(
            TextColumn("{task.fields[rows]:,} rows"),
            *columns,
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as bars:
            bar = bars.add_task("export", total=None, rows=0)

            def progress(done: int, total: int, rows: int) -> None:
                bars.update(bar, completed=done, total=total, rows=rows)

            def record(day: date, rows: int, until: int) -> bool:
                with session.connect(url, "skipmq export", writing=True) as writer:
                    return history.record_archived_day(writer, day, rows, until)

            done = export.export(
                spark, source, path, record=record, progress=progress, compact=compact, keep=keep
            )
        run.rows = done.rows
        if as_json:
            click.echo(json.dumps({"lake": path, **asdict(done)}, default=str))
        else:
            _print_summary(done, path)
        if done.damage:
            more = f", and {len(done.damage) - 1} more are damaged" if done.damage[1:] else ""
            raise click.ClickException(
                f"{done.damage[0]}{more}: `skipmq analytics verify --lake {path} --repair` exports"
                " again the days that the database still has; it keeps the days of damaged files"
            )


def _print_summary(done: "Summary", path: str) -> None:
    days = f"; {len(done.days)} days may be dropped" if done.days else ""
    removed = (
        f"; removed {done.taken_back} rows that the server does not have" if done.taken_back else ""
    )
    expired = f"; expired {done.expired} rows" if done.expired else ""
    windows = f"{done.windows} window{'s' if done.windows > 1 else ''}"
    new = f"{done.rows} rows in {windows}" if done.rows else "nothing new"
    lag = f"; the standby is {done.standby_lag:.0f} s behind" if done.standby_lag else ""
    out.print(f"{new}, up to transaction {done.until}, to {path}{removed}{expired}{days}{lag}")


@click.command("stream")
@click.option("--output", required=True, help="Local folder or Hadoop path for Parquet.")
@click.option("--once", is_flag=True, help="Stop when everything settled so far is written.")
@click.option("--every", type=float, default=10.0, help="Seconds between batches (default 10).")
@click.option(
    "--rows", type=click.IntRange(1), default=500_000, help="Maximum number of rows in a batch."
)
@click.option("--bodies/--no-bodies", default=True, help="Include bodies, if the history has them.")
@one_line_errors
def stream_command(*, output: str, once: bool, every: float, rows: int, bodies: bool) -> None:
    """Write settled messages to Parquet continuously, each row once.

    It can be stopped or killed at any time and resumes when it is run again.
    """
    with spark_and_database(configuration().settings) as (spark, source, _):
        from skipmq.analytics import sink  # noqa: PLC0415 - as above.

        options = {
            "url": source.url,
            "maxRowsPerTrigger": str(rows),
            "bodies": str(bodies).lower(),
        }
        query = sink.start(spark, options, output, every=None if once else every)
        try:
            sink.watch(query, lambda batch, n: click.echo(f"batch {batch}: {n} rows", err=True))
        finally:
            query.stop()
    out.print(f"settled messages are in {output}")
