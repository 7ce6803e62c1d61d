"""The commands `analytics export`, `pipeline` and `bodies`, which write files."""

from dataclasses import asdict, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from skipmq.analytics.postgres import history
from skipmq.cli import place
from skipmq.cli.analytics.engine import check_duckdb
from skipmq.cli.analytics.errors import check_spark, one_line_errors
from skipmq.cli.analytics.options import (
    LAKE,
    SINCE,
    UNTIL,
    Moment,
    bounds,
    check_order,
    check_queues,
    output_option,
)
from skipmq.cli.analytics.sources import Opened, lake_path, spark_started
from skipmq.cli.environment import configuration
from skipmq.cli.output import err, json_option, out, print_json
from skipmq.config.environment import PREFIX
from skipmq.database import session
from skipmq.protocol import body_schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.lake.export import Summary

_YAML, _GRPC = ("yaml", "Spark's pipelines"), ("grpc", "Spark's pipelines")


@click.command("export")
@LAKE
@click.option("--compact/--no-compact", default=True, help="Compact small files.")
@click.option("--as-archive", is_flag=True, help="Replace the lake that has recorded days.")
@click.option("--rate", type=click.IntRange(1000), help="Maximum number of messages per second.")
@click.option("--keep", type=click.IntRange(1), help="Expire older days (UTC) from the lake.")
@json_option
@one_line_errors
def analytics_export(
    *,
    lake: str | None,
    compact: bool,
    as_archive: bool,
    rate: int | None,
    keep: int | None,
    as_json: bool,
) -> None:
    """Export the messages settled since the last export to the lake, each row once.

    An export can be killed and repeated at any time. Days that are complete in the lake, with all
    rows as the database had them, are recorded in the database, which may then drop them: of one
    lake, the archive, which is SKIPMQ_ARCHIVE's, or else the last that recorded a day. --keep
    DAYS removes older days from the lake, once the database has dropped them. --rate 5000 spares a
    primary that has no standby to read. The exit code is 0 also if there was nothing to export.
    """
    settings = configuration().settings
    path = lake_path(settings, lake)
    with Opened(settings) as opened:
        spark, source = opened.spark_and_database()
        from skipmq.analytics import partitions  # noqa: PLC0415 - as above.
        from skipmq.analytics.lake import export  # noqa: PLC0415 - as above.

        # Where SKIPMQ_ARCHIVE names the archive, nothing else decides.
        is_archive = not settings.archive or _is_same(spark, path, settings.archive)
        if as_archive and not is_archive:
            raise click.UsageError(f"SKIPMQ_ARCHIVE is {settings.archive}: change it instead")
        replaces = as_archive or bool(settings.archive)
        writers = partitions.urls(opened.urls[1]) if is_archive else []
        record = [partial(_record, each, replaces=replaces) for each in writers]
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("transactions"))
        with Progress(
            TextColumn("{task.fields[rows]:,} rows"),
            *columns,
            TimeElapsedColumn(),
            console=err,
            transient=True,
        ) as bars:
            bar = bars.add_task("export", total=None, rows=0)

            def progress(done: int, total: int, rows: int) -> None:
                bars.update(bar, completed=done, total=total, rows=rows)

            done = export.export(
                spark, source, path, record=record, progress=progress, compact=compact, keep=keep,
                replaces=replaces, rate=rate,
            )  # fmt: skip
        if not is_archive:
            done = replace(done, archive=settings.archive)
        if as_json:
            print_json({"lake": path, **asdict(done)}, indent=None)
        else:
            _print_summary(done, path)
            if done.archive:
                hint = "which --as-archive replaces" if is_archive else "by SKIPMQ_ARCHIVE"
                out.print(f"no days were recorded: the archive is {escape(done.archive)}, {hint}")
        if problems := _problems(done, path):
            raise click.ClickException("\n".join(problems))


def _is_same(spark: "SparkSession", one: str, other: str) -> bool:
    """Return whether two paths are of one lake."""
    from skipmq.analytics.lake import storage  # noqa: PLC0415 - PySpark is an extra.

    def place(path: str) -> str:
        url = storage.qualified(spark, path).rstrip("/")
        is_local = url.startswith("file:")
        return str(Path(url.removeprefix("file://")).resolve()) if is_local else url

    return place(one) == place(other)


def _record(  # noqa: PLR0917 - a record.
    url: str, day: date, rows: int, until: int, lake: str, place: str, *, replaces: bool
) -> bool:
    with session.connect(url, "skipmq export", writing=True) as writer:
        return history.record_archived_day(writer, day, rows, until, lake, place, replaces=replaces)


def _problems(done: "Summary", path: str) -> list[str]:
    """Return what was not exported or is damaged, with the remedies."""
    found = [
        f"partition {partition} is unavailable: {reason}. The others are exported; run this again"
        " when it is available"
        for partition, reason in done.unavailable.items()
    ]
    if done.damage:
        more = f", and {len(done.damage) - 1} more are damaged" if done.damage[1:] else ""
        found.append(
            f"{done.damage[0]}{more}: `skipmq analytics verify --lake {path} --repair` exports"
            " again the days that the database still has; it keeps the days of damaged files"
        )
    if done.lost:
        more = f", and {len(done.lost) - 1} more days" if done.lost[1:] else ""
        found.append(f"{done.lost[0]}{more}: restore a backup of the lake")
    return found


def _print_summary(done: "Summary", path: str) -> None:
    days = f"; {len(done.days)} days may be dropped" if done.days else ""
    removed = (
        f"; removed {done.taken_back} rows that the server does not have" if done.taken_back else ""
    )
    expired = f"; expired {done.expired} rows" if done.expired else ""
    windows = f"{done.windows} window{'s' if done.windows > 1 else ''}"
    new = f"{done.rows} rows in {windows}" if done.rows else "nothing new"
    lag = f"; the standby is {done.standby_lag:.0f} s behind" if done.standby_lag else ""
    numbers = sorted(done.until.items())
    reached = [str(until) + (f" of partition {n}" if numbers[1:] else "") for n, until in numbers]
    until = f"up to transaction {', '.join(reached)}"
    out.print(f"{new}, {until}, to {path}{removed}{expired}{days}{lag}")


@click.command("pipeline")
@output_option("Folder of the tables.")
@LAKE
@json_option
@one_line_errors
def analytics_pipeline(*, output: Path, lake: str | None, as_json: bool) -> None:
    """Make hourly tables of the lake's messages.

    Runs a declarative pipeline of Spark: bronze is the lake, silver a row for each message with its
    whole life, gold the hourly tables of the reports. They replace those of the last run when all
    have been computed, and the lake has as many messages as the database has counted; else the
    former stay, and the exit code is 1. Run `analytics export` before.
    """
    settings = configuration().settings
    path = lake_path(settings, lake)
    check_spark(settings.spark_master, _YAML, _GRPC)
    from skipmq.analytics.spark import pipeline_run  # noqa: PLC0415 - PySpark is an extra.

    with Opened(settings) as opened:
        url, _ = opened.urls
        variables = {f"{PREFIX}ANALYTICS_URL": url, f"{PREFIX}ARCHIVE": path}
        with (
            pipeline_run.replacing(output) as folder,
            spark_started(settings, pipeline_run.configuration(folder)) as spark,
            out.status("running") as status,
        ):

            def said(line: str) -> None:
                if out.is_terminal:
                    status.update(escape(line))
                else:
                    err.print(escape(line), soft_wrap=True)

            pipeline_run.run(spark, folder, variables, said)
    if as_json:
        print_json({"lake": path, "tables": output / "tables"}, indent=None)
    else:
        out.print(f"the tables in {output / 'tables'} are as the database has counted")


@click.command("bodies")
@click.argument("queue")
@output_option("Parquet file.", is_folder=False)
@LAKE
@click.option(
    "--schema",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a JSON Schema to use instead of the queue's.",
)
@SINCE
@UNTIL
@json_option
@one_line_errors
def analytics_bodies(
    *,
    queue: str,
    output: Path,
    lake: str | None,
    file: Path | None,
    since: Moment | None,
    until: Moment | None,
    as_json: bool,
) -> None:
    """Write the settled messages of QUEUE as Parquet, with their bodies as columns.

    Reads a lake in a local folder. The columns are those of its schema: the queue's BodySchema as
    of the last export, or --schema. A body that does not fit is in the column `unfit`. Without
    --since and --until all messages of the lake are written.
    """
    check_order(since, until)
    settings = configuration().settings
    path = lake_path(settings, lake)
    check_duckdb(path)
    from skipmq.analytics import delta, queue_settings  # noqa: PLC0415 - PySpark is an extra.
    from skipmq.analytics.reports.engines import duckdb  # noqa: PLC0415

    table = delta.open_(delta.url_of(path))
    name = place.full_name(queue, settings)
    check_queues(None, table, [name.name])
    if file is None:
        schema = queue_settings.body_schema(queue_settings.from_lake(table.lake), name)
    else:
        schema = file.read_text(encoding="utf-8")
        try:
            body_schemas.read(schema)
        except body_schemas.SchemaError as error:
            raise click.ClickException(f"{file} is not a schema of bodies: {error}") from error
    begin, end = bounds(None, table, since, until)
    with duckdb.opened() as engine, out.status("reading"):
        history = engine.history_of(table, name, since=begin, until=end)
        rows, unfit = engine.write(engine.with_bodies(history, schema), output)
    if as_json:
        result = {"queue": queue, "file": str(output), "rows": rows, "unfit": unfit}
        print_json(result, indent=None)
    else:
        unfitting = f"; bodies that do not fit: {unfit:,}" if unfit else ""
        out.print(f"{rows:,} messages of {escape(queue)} in {escape(str(output))}{unfitting}")
