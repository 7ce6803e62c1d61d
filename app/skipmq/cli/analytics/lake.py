"""The `analytics verify` command."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq.cli.analytics.errors import DUCKDB, check_spark, one_line_errors
from skipmq.cli.analytics.sources import lake_path, spark_started
from skipmq.cli.environment import configuration
from skipmq.cli.output import json_option, out, print_json

if TYPE_CHECKING:
    from skipmq.analytics.lake.verify import Discrepancy

_DAMAGED = 1


@click.command("verify")
@click.option("--lake", help="Local folder or Hadoop path (default: SKIPMQ_ARCHIVE).")
@click.option("--deep", is_flag=True, help="Read all rows and compare them with their digests.")
@click.option("--repair", is_flag=True, help="Export damaged days again that the database has.")
@json_option
@one_line_errors
def verify_command(*, lake: str | None, deep: bool, repair: bool, as_json: bool) -> None:
    """Check a lake against its files and the database.

    Checks the size and the row count of each file, with --deep also each row; with
    SKIPMQ_DATABASE_URL or SKIPMQ_ANALYTICS_URL compares the number of rows of each queue and day
    with those that the database still has. The exit code is 1 if there are discrepancies that were
    not repaired.
    """
    settings = configuration().settings
    path = lake_path(settings, lake)
    if repair and not (settings.database_url or settings.analytics_url):
        raise click.UsageError("--repair needs the database: set SKIPMQ_DATABASE_URL")
    check_spark(settings.spark_master, DUCKDB)
    from skipmq.analytics import delta, partitions  # noqa: PLC0415 - PySpark is an extra.
    from skipmq.analytics.lake import verify  # noqa: PLC0415 - PySpark is an extra.

    with ExitStack() as stack:
        source = None
        if url := settings.analytics_url or settings.database_url:
            source = stack.enter_context(partitions.opened(url))
        table = delta.open_(delta.url_of(path))
        with out.status("reading the rows" if deep else "checking the files"):
            result = verify.check(table, source, deep=deep)
        found = result.discrepancies
        repaired = [each for each in found if repair and each.can_be_repaired]
        if repaired and source is not None:
            spark = stack.enter_context(spark_started(settings))
            with out.status("exporting again"):
                verify.repair(spark, path, source, repaired)
    if as_json:
        totals = {"lake": path, "files": result.files, "rows": result.rows}
        wrong = [_as_json(each, repaired) for each in found]
        print_json({**totals, "wrong": wrong})
    else:
        if found:
            out.print(_table(found, repaired))
        remaining = len(found) - len(repaired)
        verdict = f"{remaining} queue days have discrepancies" if remaining else "no discrepancies"
        out.print(f"{result.files:,} files with {result.rows:,} rows: {verdict}")
    if len(repaired) < len(found):
        sys.exit(_DAMAGED)


def _as_json(each: "Discrepancy", repaired: Sequence["Discrepancy"]) -> dict[str, Any]:
    return {
        "day": str(each.queue_day.day), "queue": each.queue_day.queue,
        "partition": each.queue_day.partition, "rows": each.rows,
        "rows_in_database": each.database_rows, "problems": each.problems,
        "repaired": each in repaired,
    }  # fmt: skip


def _table(found: Sequence["Discrepancy"], repaired: Sequence["Discrepancy"]) -> Table:
    table = Table("day", "queue", "partition", "problems", "remedy", box=None, pad_edge=False)
    for each in found:
        if each in repaired:
            remedy = "[green]exported again[/]"
        elif each.can_be_repaired:
            remedy = "export again with --repair"
        else:
            remedy = "[red]restore a backup[/]: the database no longer has the rows"
        day, queue, partition = each.queue_day
        problems = escape("\n".join(each.problems))
        table.add_row(str(day), escape(queue), str(partition), problems, remedy)
    return table
