"""The commands `analytics report`, `replay` and `forget`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from skipmq.cli import place
from skipmq.cli.analytics.engine import computing
from skipmq.cli.analytics.errors import one_line_errors
from skipmq.cli.analytics.options import (
    DRY_RUN,
    ENGINE,
    LAKE,
    WHERE,
    Selection,
    bounds,
    check_queues,
    output_option,
    selects,
)
from skipmq.cli.analytics.sources import Opened, lake_table
from skipmq.cli.environment import configuration
from skipmq.cli.output import ask, err, json_option, out, print_json, yes_option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skipmq.analytics.jdbc import Source
    from skipmq.analytics.lake.forget import MessageCount

_COLOURS = {"bad": "red", "watch": "yellow", "unknown": "blue", "good": "green"}
# Matching messages remain.
_FAILED = 1
_ERASED_IN = ("staged", "live", "history", "lake")


@click.command("report")
@output_option("Folder of the page and its tables.")
@selects
@ENGINE
@json_option
@one_line_errors
def analytics_report(*, output: Path, selection: Selection, engine: str, as_json: bool) -> None:
    """Report latency, traffic, redelivery, dead letters, groups, backlog and consumers.

    Without --since of the day before the end, or of a younger history from where it begins.
    Compares the period with the previous one of equal length. Writes each report to the folder of
    --output as Parquet and CSV, and all of them as one page, report.html. Reads the database, or
    with --lake the export. From the database, the backlog includes messages that are not settled.
    """
    settings = configuration().settings
    with computing(settings, selection, engine) as source:
        from skipmq.analytics.reports import page, report  # noqa: PLC0415

        tables = {}
        with (
            Progress(console=err, transient=True) as progress,
            report.reports(source.engine, source.history, source.queues, source.period) as computed,
        ):
            bar = progress.add_task("reporting", total=len(computed))
            for name, rows in report.write(computed, output):
                tables[name] = rows
                progress.update(bar, advance=1, description=name.replace("_", " "))
        data = page.ReportData(
            f"lake {selection.lake}" if selection.lake else "the database",
            source.period,
            tables,
            live=not selection.lake,
            history_since=source.history_since,
            uncompared=source.uncompared,
        )
        file = report.write_page(data, output)
    findings = page.report_findings(data)
    if as_json:
        result = {
            "since": source.period.since,
            "until": source.period.until,
            "engine": source.engine.name,
            "page": file,
            "reports": sorted(tables),
            "findings": [asdict(finding) for finding in findings],
        }
        print_json(result)
        return
    for finding in findings:
        colour = _COLOURS[finding.weight]
        out.print(f"[{colour}]●[/] [bold]{escape(finding.queue)}[/]: {escape(finding.text)}")
    out.print(f"{len(computed)} reports and {file}; computed by {source.description}")


def _history(spark: "SparkSession", source: "Source", selection: Selection) -> "DataFrame":
    """Return the history with bodies."""
    from skipmq.analytics import frames  # noqa: PLC0415

    lake, queues = selection.lake, selection.queues
    table = lake_table(spark, lake)
    check_queues(source, table, queues)
    begin, end = bounds(source, table, selection.since, selection.until)
    if lake:
        return frames.lake(spark, lake, since=begin, until=end, queues=queues)
    return frames.history(spark, source, since=begin, until=end, queues=queues, bodies=True)


@click.command("replay")
@WHERE
@click.option("--to", "queue", required=True, help="Queue to send to.")
@selects
@click.option("--rate", type=click.IntRange(1), help="Maximum number of messages per second.")
@click.option("--id", "replay_id", help="Name of the replay (default: from --where and --to).")
@DRY_RUN
@yes_option
@json_option
@one_line_errors
def analytics_replay(
    *,
    condition: str,
    queue: str,
    selection: Selection,
    rate: int | None,
    replay_id: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Send settled messages again, selected by an SQL condition over the history.

    Only for queues whose HistoryMode is full, because others have no bodies in the history. A
    replay is sent once to a queue: repeated with the same --id it continues where it was
    interrupted, with the messages that it began with. Without --rate up to 100,000 messages are
    sent in one transaction. Each has the attribute
    skipmq.replayed_from. It needs the role of the owner or of a node.
    """
    settings = configuration().settings
    name = replay_id or sha256(f"{condition}\n{queue}".encode()).hexdigest()[:12]
    with Opened(settings) as opened:
        spark, source = opened.spark_and_watched_database()
        writers = opened.writers()
        from skipmq.analytics import replay  # noqa: PLC0415

        to = place.full_name(queue, settings)
        writer = replay.target(writers, to)
        history = _history(spark, source, selection)
        with out.status("counting"):
            selected = replay.selected(history, condition).persist()
            overview = replay.overview(selected)
        if not as_json:
            out.print(_overview(overview, queue))
        count = sum(row["messages"] - row["without_body"] for row in overview)
        result: dict[str, Any] = {"replay": name, "found": overview, "sent": 0}
        if count and not dry_run:
            if not yes:
                ask(f"Send {count} messages to {queue}?", "nothing was sent")
            staged = replay.stage(writer, name, to, _ordered(selected))
            with Progress(console=err, transient=True) as progress:
                bar = progress.add_task(f"to {escape(queue)}", total=staged.rows)
                for sent in replay.send(writer, name, to, staged, rate=rate):
                    result["sent"] += sent
                    progress.advance(bar, sent)
            result["sent_before"] = staged.rows - result["sent"]
    if as_json:
        print_json(result)
    else:
        out.print(_summary(result, queue, dry_run=dry_run))


def _ordered(selected: "DataFrame") -> Iterator[Any]:
    return selected.orderBy("id").toLocalIterator(prefetchPartitions=True)


def _summary(result: Mapping[str, Any], queue: str, *, dry_run: bool) -> str:
    if dry_run:
        return "dry run: nothing was sent"
    before = result.get("sent_before")
    again = f"; it had sent {before} before: use another --id to send them again" if before else ""
    return f"{result['sent']} messages sent to {queue} by the replay {result['replay']}{again}"


def _overview(rows: Sequence[Mapping[str, Any]], queue: str) -> Any:
    if not rows:
        return "no settled message matches"
    table = Table(
        *("from", "outcome", "messages", "bytes", "oldest", "newest", "without body"),
        title=f"to {escape(queue)}", title_justify="left", box=None, pad_edge=False,
    )  # fmt: skip
    for row in rows:
        table.add_row(
            *(escape(row["queue"]), row["outcome"], f"{row['messages']:,}", f"{row['bytes']:,}"),
            *(f"{row[at]:%Y-%m-%d %H:%M:%S}" for at in ("oldest", "newest")),
            f"{row['without_body']:,} (not sent)" if row["without_body"] else "",
        )
    return table


@click.command("forget")
@WHERE
@LAKE
@DRY_RUN
@yes_option
@json_option
@one_line_errors
def analytics_forget(
    *,
    condition: str,
    lake: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Erase the messages that match an SQL condition, in queues, the history and the lake.

    Also those that are staged for a replay or by Spark, and the filters of tasks that ended.
    Counts again at the end; the exit code is 1 if matching messages remain. It needs the owner's
    role. Not erased are write-ahead logs, backups, copies of the lake, the audit log, which has the
    filters of tasks that were started, and settings: schedules, topics and pauses of groups.
    """
    settings = configuration().settings
    path = lake or settings.archive
    with Opened(settings) as opened:
        spark, _ = opened.spark_and_database()
        writers = opened.writers(as_owner=True)
        from skipmq.analytics.lake import forget  # noqa: PLC0415
        from skipmq.analytics.lake.tables import Lake  # noqa: PLC0415

        lake_ = Lake.find(spark, path) if path else None
        with out.status("counting"):
            before = forget.find(writers, lake_, condition)
        if not as_json:
            out.print(_places(before, "found"))
        after, erased = before, dict.fromkeys(_ERASED_IN, 0)
        # Also if none is found: files of killed exports and unsent replays may have some.
        if not dry_run:
            number = sum(found.messages for found in before)
            if number and not yes:
                ask(f"Permanently erase {number} messages?", "nothing was erased")
            for place, done in forget.erase(writers, lake_, condition):
                erased[place] += done
            days = {f.day for f in before if f.place == "history" and f.day}
            forget.vacuum(writers, sorted(days))
            after = forget.find(writers, lake_, condition)
    if as_json:
        print_json(forget.report(before, after, erased))
    elif dry_run:
        out.print("dry run: nothing was erased")
    elif before:
        summary = ", ".join(f"{number} from {place}" for place, number in erased.items() if number)
        out.print(f"erased: {summary}")
        out.print(_places(after, "remaining") if after else "no matching message remains")
    if after and not dry_run:
        sys.exit(_FAILED)


def _places(found: Sequence["MessageCount"], title: str) -> Any:
    if not found:
        return "no message matches"
    table = Table(
        *("place", "day", "queue", "messages"), title=title, title_justify="left", box=None,
        pad_edge=False,
    )  # fmt: skip
    for row in found:
        table.add_row(row.place, row.day or "", escape(row.queue or ""), f"{row.messages:,}")
    return table
