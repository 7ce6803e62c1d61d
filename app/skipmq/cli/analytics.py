"""The commands on the history, which run on Spark."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from skipmq.cli.analytics_errors import installed, telling
from skipmq.cli.surroundings import configuration, open_database, out
from skipmq.config import Settings
from skipmq.store import Database, Upkeep, schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

# Seconds that the database may take to count a day.
_COUNT = 3600.0


@click.group()
def analytics() -> None:
    """Keep the history as Parquet, follow it, and work on it with Spark."""


@contextmanager
def spark_session(settings: Settings) -> Iterator["SparkSession"]:
    """Give a Spark session.

    Raises click.ClickException, with the remedy, when PySpark or Java is missing.
    """
    installed(settings.spark_master)
    # Only here: PySpark is an extra.
    from skipmq.analytics import session  # noqa: PLC0415

    with out.status("starting Spark"):
        spark = session.start(settings)
    # What fails is told in a line; Spark's own logs would put pages of Java around it.
    spark.sparkContext.setLogLevel("FATAL")
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).disabled = True
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def surroundings(settings: Settings) -> Iterator[tuple["SparkSession", "Source", str]]:
    """Give a Spark session, the database to read, and the URL of the one that nodes write to.

    Raises click.ClickException, with the remedy, when PySpark or Java is missing, and before Spark
    is started what schema.check raises.
    """
    installed(settings.spark_master)
    with ExitStack() as stack:
        _, url = stack.enter_context(open_database(settings))
        schema.check(url)
        spark = stack.enter_context(spark_session(settings))
        from skipmq.analytics import jdbc  # noqa: PLC0415 - as above.

        reading = settings.analytics_url or url.replace(
            "postgresql://skipmq_node@/", "postgresql://skipmq_reader@/"
        )
        yield spark, stack.enter_context(jdbc.opened(reading)), url


def lake_of(settings: Settings, given: str | None) -> str:
    """Return the path of the lake; raise click.UsageError when none is named."""
    if not (given or settings.archive):
        raise click.UsageError("name the lake: --lake DIR, or SKIPMQ_ARCHIVE")
    return given or settings.archive


@analytics.command("export")
@click.option("--lake", help="Folder, or any path of Hadoop's (default: SKIPMQ_ARCHIVE).")
@click.option("--compact/--no-compact", default=True, help="Put small files of past days together.")
@telling
def export_command(*, lake: str | None, compact: bool) -> None:
    """Add to the lake what was settled since the last export: each row once.

    It may be killed at any moment, and run again. Days that the lake has in whole are recorded in
    the database, which may drop them from then on.
    """
    settings = configuration().settings
    path = lake_of(settings, lake)
    with surroundings(settings) as (spark, source, url):
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

            database = Database(url, size=1, deadline=_COUNT, application_name="skipmq export")
            try:
                done = export.export(
                    spark,
                    source,
                    path,
                    record=Upkeep(database).record_archived_day,
                    progress=progress,
                    compact=compact,
                )
            finally:
                database.close()
    days = f"; {len(done.days)} days may be dropped" if done.days else ""
    back = (
        f"; {done.taken_back} rows that the server does not have were taken back"
        if done.taken_back
        else ""
    )
    out.print(
        f"{done.rows} rows in {done.windows} windows, up to transaction {done.until}, to {path}"
        f"{back}{days}"
    )


@analytics.command("stream")
@click.option("--output", required=True, help="Folder, or any path of Hadoop's, for Parquet.")
@click.option("--once", is_flag=True, help="Stop when all is written that there is now.")
@click.option("--every", type=float, default=10.0, help="Seconds between batches (default 10).")
@click.option("--rows", type=click.IntRange(1), default=500_000, help="Rows of a batch, at most.")
@click.option("--bodies", is_flag=True, help="With bodies and attributes, where they are kept.")
@telling
def stream_command(*, output: str, once: bool, every: float, rows: int, bodies: bool) -> None:
    """Write what is settled to Parquet, as it is settled: each row once.

    It may be stopped or killed at any moment, and goes on where it was when it is run again.
    """
    with surroundings(configuration().settings) as (spark, source, _):
        from skipmq.analytics import follow  # noqa: PLC0415 - as above.

        options = {
            "url": source.url,
            "maxRowsPerTrigger": str(rows),
            "bodies": str(bodies).lower(),
        }
        query = follow.follow(spark, options, output, every=None if once else every)
        try:
            follow.watch(query, lambda batch, n: click.echo(f"batch {batch}: {n} rows", err=True))
        finally:
            query.stop()
    out.print(f"what is settled lies in {output}")
