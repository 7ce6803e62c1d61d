"""The commands `analytics verify` and `reconcile`, which compare what is stored."""

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq.cli import failures
from skipmq.cli.analytics.errors import DUCKDB, check_packages, check_spark, one_line_errors
from skipmq.cli.analytics.options import LAKE, now
from skipmq.cli.analytics.sources import Opened, lake_path, spark_started
from skipmq.cli.environment import configuration
from skipmq.cli.output import json_option, limit_option, out, print_json
from skipmq.telemetry.terminal import visible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipmq.analytics.lake.verify import Discrepancy

_DIFFERS, _UNCHECKED = 1, 2
# Messages were lost or duplicated.
_FAILED = 1


class _UncheckedError(click.ClickException):
    exit_code = _UNCHECKED


def _unchecked(command: Callable[..., Any]) -> Callable[..., Any]:
    """Have errors exit with 2: 1 is what was found."""

    @wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except click.UsageError:
            raise
        except click.ClickException as error:
            raise _UncheckedError(error.message) from error
        except Exception as error:
            if (explained := failures.explain(error)) is None:
                click.echo(visible(traceback.format_exc()), err=True)
                sys.exit(_UNCHECKED)
            raise _UncheckedError("\n".join(explained.problems)) from error

    return wrapped


@click.command("verify")
@LAKE
@click.option("--deep", is_flag=True, help="Read all rows and compare them with their digests.")
@click.option("--repair", is_flag=True, help="Export damaged days again that the database has.")
@json_option
@_unchecked
@one_line_errors
def analytics_verify(*, lake: str | None, deep: bool, repair: bool, as_json: bool) -> None:
    """Check a lake against its files and the database.

    Checks the size and the footer of each file, with --deep also each row, and compares the number
    of rows of each queue and day with those that the database still has: the one of
    SKIPMQ_ANALYTICS_URL or SKIPMQ_DATABASE_URL, or the embedded one if the lake is of it. Java is
    needed only by --repair. The exit code is 0 if all is equal, 1 if there are discrepancies that
    were not repaired, and 2 if the lake could not be checked.
    """
    settings = configuration().settings
    path = lake_path(settings, lake)
    check_packages(DUCKDB)
    if repair:
        check_spark(settings.spark_master, DUCKDB)
    from skipmq.analytics import delta  # noqa: PLC0415 - PySpark is an extra.
    from skipmq.analytics.lake import verify  # noqa: PLC0415 - PySpark is an extra.

    with Opened(settings) as opened:
        source = opened.database_of(table := delta.open_(delta.url_of(path)))
        if repair and source is None:
            raise click.UsageError("--repair needs the database: set SKIPMQ_DATABASE_URL")
        with out.status("reading the rows" if deep else "checking the files"):
            result = verify.check(table, source, deep=deep)
        found = result.discrepancies
        repaired = [each for each in found if repair and each.can_be_repaired]
        if repaired and source is not None:
            spark = opened.enter_context(spark_started(settings))
            with out.status("exporting again"):
                verify.repair(spark, path, source, repaired)
    if as_json:
        totals = {"lake": path, "files": result.files, "rows": result.rows}
        wrong = [_as_json(each, repaired) for each in found]
        print_json({**totals, "compared": source is not None, "wrong": wrong})
    else:
        if found:
            out.print(_table(found, repaired))
        remaining = len(found) - len(repaired)
        verdict = f"{remaining} queue days have discrepancies" if remaining else "no discrepancies"
        asked = "" if source else "; not compared with a database: set SKIPMQ_DATABASE_URL for that"
        out.print(f"{result.files:,} files with {result.rows:,} rows: {verdict}{asked}")
    if len(repaired) < len(found):
        sys.exit(_DIFFERS)


def _as_json(each: "Discrepancy", repaired: Sequence["Discrepancy"]) -> dict[str, Any]:
    return {
        "day": str(each.queue_day.day), "queue": each.queue_day.queue,
        "partition": each.queue_day.partition, "rows": each.rows,
        "database": each.asked, "rows_in_database": each.database_rows, "problems": each.problems,
        "repaired": each in repaired,
    }  # fmt: skip


def _table(found: Sequence["Discrepancy"], repaired: Sequence["Discrepancy"]) -> Table:
    table = Table("day", "queue", "partition", "problems", "remedy", box=None, pad_edge=False)
    for each in found:
        day, queue, partition = each.queue_day
        problems = escape("\n".join(each.problems))
        remedy = "[green]exported again[/]" if each in repaired else _remedy(each)
        table.add_row(str(day), escape(queue), str(partition), problems, remedy)
    return table


def _remedy(each: "Discrepancy") -> str:
    if each.can_be_repaired:
        return "export again with --repair"
    match each.asked.value:
        case "not asked":
            return "set SKIPMQ_DATABASE_URL: the database may have the rows, for --repair"
        case "dropped":
            return "[red]restore a backup[/] of the lake: the database has dropped the day"
    return (
        f"the database has {each.rows - (each.database_rows or 0)} rows fewer: [red]erase them here"
        " too[/], if `analytics forget` went to another lake, or restore a backup of the database"
    )


@click.command("reconcile")
@click.option("--sent", type=click.Path(exists=True), help="Log of acknowledged sends, JSON lines.")
@click.option(
    "--late",
    type=float,
    default=60.0,
    show_default=True,
    help="Seconds after which a first receive is late.",
)
@limit_option(20, 10_000, "Number of messages to list by ID.")
@json_option
@one_line_errors
def analytics_reconcile(*, sent: str | None, late: float, limit: int, as_json: bool) -> None:
    """Reconcile sent messages with those stored, delivered and deleted.

    --sent is a client's log of acknowledged sends: lines of {"message_id", "queue", "sent_at"}.
    Without it, checks that every stored message was settled at most once. Reads everything in one
    snapshot. The exit code is 1 if messages were lost or duplicated.
    """
    settings = configuration().settings
    with Opened(settings) as opened:
        spark, source = opened.spark_and_watched_database()
        from skipmq.analytics import reconcile, snapshot, sources  # noqa: PLC0415

        log = reconcile.sends(spark, sent) if sent else None
        with out.status("reading"), snapshot.taken_of_all(source) as taken:
            messages = _united(snapshot.everything(spark, each) for each in taken).persist()
            messages.count()
            erased = _united(snapshot.erased(spark, each) for each in taken).persist()
            erased.count()
            scope = sources.history_scope(source)
        fates = reconcile.fates(
            messages, log, now=now(source), late=late,
            history_since=scope.since, unkept=scope.unkept, erased=erased,
        ).persist()  # fmt: skip
        rows = [row.asDict() for row in reconcile.totals(fates).collect()]
        wrong = [
            row.asDict()
            for row in fates.where(fates["fate"].isin(list(reconcile.FAILURES)))
            .orderBy("queue", "sent_at")
            .limit(limit)
            .collect()
        ]
    failed = sum(row[fate] for row in rows for fate in reconcile.FAILURES)
    if as_json:
        print_json({"queues": rows, "wrong": wrong})
    else:
        out.print(_totals(rows))
        for row in wrong:
            out.print(f"[red]{row['fate']}[/] {escape(row['queue'])} {row['message_id']}")
        out.print(
            f"[red]{failed} messages lost or duplicated[/]"
            if failed
            else "no message is lost or duplicated"
        )
    if failed:
        sys.exit(_FAILED)


def _united(frames: "Iterable[DataFrame]") -> "DataFrame":
    return reduce(lambda one, other: one.union(other), frames)


def _totals(rows: Sequence[Mapping[str, Any]]) -> Any:
    if not rows:
        return "no message was sent"
    names = [name for name in rows[0] if name == "queue" or any(row[name] for row in rows)]
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(str(row[name])) for name in names))
    return table
