"""The commands on the history, which run on Spark."""

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
from skipmq.cli.analytics_errors import installed, one_line_errors
from skipmq.cli.environment import configuration, open_database
from skipmq.cli.output import out
from skipmq.database import schema, session
from skipmq.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.export import Summary
    from skipmq.analytics.jdbc import Source


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@contextmanager
def spark_started(settings: Settings) -> Iterator["SparkSession"]:
    """Give a Spark session.

    Raises click.ClickException, with the remedy, when PySpark or Java is missing.
    """
    installed(settings.spark_master)
    # Only here: PySpark is an extra.
    from skipmq.analytics import session as spark_session  # noqa: PLC0415

    with out.status("starting Spark"), _errors_aside() as said:
        try:
            spark = spark_session.start(settings)
        except Exception as error:
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").splitlines()
            reason = next((line for line in lines if "Exception" in line), str(error))
            raise click.ClickException(f"Spark did not start: {reason.strip()}") from error
    # An error is shown in one line; Spark's own logs would put pages of Java around it.
    spark.sparkContext.setLogLevel("FATAL")
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).disabled = True
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _errors_aside() -> Iterator[IO[bytes]]:
    """Give a file that has what Java and Ivy write about what they do, and not standard error.

    A JVM that is started within the block writes there for as long as it lives.
    """
    standard_error = 2
    with TemporaryFile() as file:
        kept = os.dup(standard_error)
        os.dup2(file.fileno(), standard_error)
        try:
            yield file
        finally:
            os.dup2(kept, standard_error)
            os.close(kept)


@contextmanager
def spark_and_database(
    settings: Settings,
) -> Iterator[tuple["SparkSession", "Source", str]]:
    """Give a Spark session, the database to read, and the URL of the one that nodes write to.

    Raises click.ClickException, with the remedy, when PySpark or Java is missing, and before Spark
    is started when SKIPMQ_ANALYTICS_URL leads nowhere, and what schema.check raises.
    """
    installed(settings.spark_master)
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
    """Check the URL that SKIPMQ_ANALYTICS_URL names; raise click.ClickException."""
    name = "SKIPMQ_ANALYTICS_URL"
    try:
        with session.connect(url, "skipmq analytics") as connection:
            history.queue_settings(connection, ["queue"])
    except session.Unavailable as error:
        raise click.ClickException(session.explain(error, name)) from error
    except session.Error as error:
        raise click.ClickException(
            f"{name} is not of a database of SkipMQ, or its role may not read there"
            " (skipmq_reader may)"
        ) from error


def lake_of(settings: Settings, given: str | None) -> str:
    """Return the path of the lake; raise click.UsageError when none is named."""
    if not (given or settings.archive):
        raise click.UsageError("name the lake: --lake DIR, or SKIPMQ_ARCHIVE")
    return given or settings.archive


@click.command("export")
@click.option("--lake", help="Folder, or any path of Hadoop's (default: SKIPMQ_ARCHIVE).")
@click.option("--compact/--no-compact", default=True, help="Put small files together.")
@click.option("--keep", type=click.IntRange(1), help="Take older days (UTC) out of the lake.")
@JSON
@one_line_errors
def export_command(*, lake: str | None, compact: bool, keep: int | None, as_json: bool) -> None:
    """Add to the lake what was settled since the last export: each row once.

    It may be killed at any moment, and run again. Days that the lake has in whole, in files that
    are still as they were written, are recorded in the database, which may drop them within a day.
    --keep DAYS takes out of the lake what is older, once the database has dropped it. Ends with
    code 0 when there was nothing new.
    """
    settings = configuration().settings
    path = lake_of(settings, lake)
    with spark_and_database(settings) as (spark, source, url):
        from skipmq.analytics import export  # noqa: PLC0415 - as above.

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("transactions"))
        with Progress(
            TextColumn("{task.fields[rows]:,} rows"),
            *columns,
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as shown:
            bar = shown.add_task("export", total=None, rows=0)

            def progress(done: int, total: int, rows: int) -> None:
                shown.update(bar, completed=done, total=total, rows=rows)

            def record(day: date, rows: int, until: int) -> bool:
                with session.connect(url, "skipmq export", writing=True) as writer:
                    return history.record_archived_day(writer, day, rows, until)

            done = export.export(
                spark, source, path, record=record, progress=progress, compact=compact, keep=keep
            )
    if as_json:
        click.echo(json.dumps({"lake": path, **asdict(done)}, default=str))
    else:
        _say(done, path)
    if done.damage:
        more = f", and {len(done.damage) - 1} more are damaged" if done.damage[1:] else ""
        raise click.ClickException(
            f"{done.damage[0]}{more}: `skipmq analytics verify --lake {path} --repair` exports"
            " again what the database still has; it keeps their days"
        )


def _say(done: "Summary", path: str) -> None:
    days = f"; {len(done.days)} days may be dropped" if done.days else ""
    back = (
        f"; {done.taken_back} rows that the server does not have were taken back"
        if done.taken_back
        else ""
    )
    old = f"; {done.expired} rows were older than is kept" if done.expired else ""
    new = f"{done.rows} rows in {done.windows} windows" if done.rows else "nothing new"
    out.print(f"{new}, up to transaction {done.until}, to {path}{back}{old}{days}")


@click.command("stream")
@click.option("--output", required=True, help="Folder, or any path of Hadoop's, for Parquet.")
@click.option("--once", is_flag=True, help="Stop when everything settled so far is written.")
@click.option("--every", type=float, default=10.0, help="Seconds between batches (default 10).")
@click.option("--rows", type=click.IntRange(1), default=500_000, help="Rows of a batch, at most.")
@click.option("--bodies/--no-bodies", default=True, help="With bodies, where they are kept.")
@one_line_errors
def stream_command(*, output: str, once: bool, every: float, rows: int, bodies: bool) -> None:
    """Write what is settled to Parquet, as it is settled: each row once.

    It may be stopped or killed at any moment, and goes on where it was when it is run again.
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
