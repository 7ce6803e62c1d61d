"""The command `analytics reconcile`."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq.cli.analytics.errors import one_line_errors
from skipmq.cli.analytics.options import now
from skipmq.cli.analytics.sources import Opened
from skipmq.cli.environment import configuration
from skipmq.cli.output import json_option, limit_option, out, print_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Messages were lost or duplicated.
_FAILED = 1


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
