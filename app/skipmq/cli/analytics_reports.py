"""The commands that report on the history, and act on what they find."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from skipmq.cli import local
from skipmq.cli.analytics import JSON, spark_and_database
from skipmq.cli.analytics_engine import Wanted, opened
from skipmq.cli.analytics_errors import one_line_errors
from skipmq.cli.analytics_options import (
    ENGINE,
    LAKE,
    QUEUES,
    SINCE,
    UNTIL,
    WHERE,
    in_order,
    known,
    now,
    table_of,
    utc,
)
from skipmq.cli.environment import configuration, open_database
from skipmq.cli.output import out
from skipmq.database import session
from skipmq.database.session import Session
from skipmq.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skipmq.analytics.forget import Found
    from skipmq.analytics.jdbc import Source

# Messages were lost, duplicated or left.
_WRONG = 1


@click.command("report")
@click.option("--output", required=True, type=click.Path(file_okay=False, path_type=Path))
@LAKE
@SINCE
@UNTIL
@QUEUES
@ENGINE
@JSON
@one_line_errors
def report_command(
    *,
    output: Path,
    lake: str | None,
    since: datetime | None,
    until: datetime | None,
    queues: tuple[str, ...],
    engine: str,
    as_json: bool,
) -> None:
    """Report on a time: latencies, traffic, redelivery, dead letters, groups, backlog, consumers.

    And compare it with the time before of equal length.

    Writes each report to the folder of --output as Parquet and CSV, and all together as one page,
    report.html. Reads the database, or with --lake what was exported. With the database, messages
    that wait still are part of the backlog.
    """
    in_order(since, until)
    wanted = Wanted(lake, since, until, queues)
    with opened(configuration().settings, wanted, engine) as read:
        from skipmq.analytics import page, report  # noqa: PLC0415

        tables = {}
        with (
            Progress(console=Console(stderr=True), transient=True) as progress,
            report.reports(read.history, read.queues, read.period) as computed,
        ):
            bar = progress.add_task("reporting", total=len(computed))
            for name, rows in report.write(computed, output):
                tables[name] = rows
                progress.update(bar, advance=1, description=name.replace("_", " "))
        facts = page.Facts(
            f"lake {lake}" if lake else "the database",
            read.period,
            tables,
            live=not lake,
            known_since=read.known_since,
            uncompared=read.uncompared,
        )
        file = report.write_page(facts, output)
    findings = page.findings_of(facts)
    if as_json:
        said = {
            "since": read.period.since,
            "until": read.period.until,
            "engine": read.engine,
            "page": file,
            "reports": sorted(tables),
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json.dumps(said, indent=2, default=str))
        return
    for finding in findings:
        colour = {"bad": "red", "watch": "yellow", "good": "green"}[finding.weight]
        out.print(f"[{colour}]●[/] [bold]{escape(finding.queue)}[/]: {escape(finding.text)}")
    out.print(f"{len(computed)} reports and {file}; computed by {read.said}")


def _history(
    spark: "SparkSession",
    source: "Source | None",
    lake: str | None,
    *,
    since: datetime | None,
    until: datetime | None,
    queues: Sequence[str],
) -> "DataFrame":
    """Return the history with its bodies."""
    from skipmq.analytics import frames  # noqa: PLC0415

    wanted = {"since": utc(since), "until": utc(until), "queues": queues}
    if lake:
        return frames.lake(spark, lake, **wanted)  # type: ignore[arg-type]
    assert source is not None
    return frames.history(spark, source, **wanted, bodies=True)  # type: ignore[arg-type]


@contextmanager
def _writing(settings: Settings) -> Iterator[Session]:
    """Connect as the role of SKIPMQ_DATABASE_URL, or as the owner of the embedded database."""
    with (
        open_database(settings) as (url, _),
        session.connect(url, "skipmq analytics", writing=True) as writer,
    ):
        yield writer


@click.command("replay")
@WHERE
@click.option("--to", "queue", required=True, help="Queue to send to.")
@LAKE
@SINCE
@UNTIL
@QUEUES
@click.option("--rate", type=click.IntRange(1), help="At most so many messages a second.")
@click.option("--id", "replay_id", help="Name of the replay (default: from --where and --to).")
@click.option("--dry-run", is_flag=True, help="Only show what would be sent.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
@one_line_errors
def replay_command(
    *,
    condition: str,
    queue: str,
    lake: str | None,
    since: datetime | None,
    until: datetime | None,
    queues: tuple[str, ...],
    rate: int | None,
    replay_id: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Send settled messages again, selected by an SQL condition over the history.

    For queues whose HistoryMode is full: others have no bodies to send. A replay of one
    --id sends each message once, however often it is repeated or interrupted; without --rate all
    are sent in one transaction. Each has the attribute skipmq.replayed_from. It needs the role of
    the owner or of a node, not the reader's.
    """
    in_order(since, until)
    settings = configuration().settings
    name = replay_id or sha256(f"{condition}\n{queue}".encode()).hexdigest()[:12]
    with spark_and_database(settings) as (spark, source, _), _writing(settings) as writer:
        from skipmq.analytics import replay  # noqa: PLC0415

        to = replay.target(writer, local.queue_name(queue, settings))
        known(source, table_of(spark, lake), queues)
        history = _history(spark, source, lake, since=since, until=until, queues=queues)
        with out.status("counting"):
            found = replay.selected(history, condition).persist()
            overview = replay.overview(found)
        if not as_json:
            out.print(_overview(overview, queue))
        there = sum(row["messages"] - row["without_body"] for row in overview)
        result: dict[str, Any] = {"replay": name, "found": overview, "sent": 0}
        if there and not dry_run:
            if not yes:
                click.confirm(f"Send {there} messages to {queue}?", abort=True, err=True)
            staged = replay.stage(writer, name, to, _ordered(found))
            result["sent_before"] = staged.sent
            with Progress(console=Console(stderr=True), transient=True) as progress:
                bar = progress.add_task(f"to {escape(queue)}", total=staged.to_send)
                for sent in replay.send(writer, name, to, staged, rate=rate):
                    result["sent"] += sent
                    progress.advance(bar, sent)
    if as_json:
        click.echo(json.dumps(result, indent=2, default=str))
    else:
        out.print(_replayed(result, queue, dry_run=dry_run))


def _ordered(found: "DataFrame") -> Iterator[Any]:
    return found.orderBy("id").toLocalIterator(prefetchPartitions=True)


def _replayed(result: Mapping[str, Any], queue: str, *, dry_run: bool) -> str:
    if dry_run:
        return "nothing was sent: a dry run"
    before = result.get("sent_before")
    again = f"; {before} were sent by it before: another --id sends them again" if before else ""
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
@click.option("--lake", help="Erase from that lake too (default: SKIPMQ_ARCHIVE).")
@click.option("--dry-run", is_flag=True, help="Only show what would be erased.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
@one_line_errors
def forget_command(
    *, condition: str, lake: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Erase messages by an SQL condition: live ones, the history, the lake.

    Counts again at the end, and exits with 1 if any are left. It needs the owner's role.
    Write-ahead logs, backups and copies of the lake are not erased.
    """
    settings = configuration().settings
    path = lake or settings.archive
    with spark_and_database(settings) as (spark, _, _), _writing(settings) as writer:
        from skipmq.analytics import forget  # noqa: PLC0415
        from skipmq.analytics.lake import Lake  # noqa: PLC0415

        lake_ = Lake.find(spark, path) if path else None
        with out.status("counting"):
            before = forget.find(writer, lake_, condition)
        if not as_json:
            out.print(_places(before, "found"))
        after, erased = before, dict.fromkeys(("live", "history", "lake", "replay"), 0)
        if before and not dry_run:
            number = sum(found.messages for found in before)
            if not yes:
                click.confirm(f"Erase these {number} for good?", abort=True, err=True)
            for place, done in forget.erase(writer, lake_, condition):
                erased[place] += done
            days = {f.day for f in before if f.place == "history" and f.day}
            forget.vacuum(writer, sorted(days))
            after = forget.find(writer, lake_, condition)
    if as_json:
        click.echo(json.dumps(forget.report(before, after, erased), indent=2))
    elif dry_run:
        out.print("nothing was erased: a dry run")
    elif before:
        summary = ", ".join(f"{number} from {place}" for place, number in erased.items() if number)
        out.print(f"erased: {summary}")
        out.print(_places(after, "still there") if after else "no such message is left")
    if after and not dry_run:
        sys.exit(_WRONG)


def _places(found: Sequence["Found"], title: str) -> Any:
    if not found:
        return "no message matches"
    table = Table(
        *("place", "day", "queue", "messages"), title=title, title_justify="left", box=None,
        pad_edge=False,
    )  # fmt: skip
    for row in found:
        table.add_row(row.place, row.day or "", escape(row.queue or ""), f"{row.messages:,}")
    return table


@click.command("audit")
@click.option("--sent", type=click.Path(exists=True), help="Log of acknowledged sends, JSON lines.")
@click.option("--late", type=float, default=60.0, help="Seconds to the first receive (60).")
@click.option("--show", type=click.IntRange(0), default=20, help="So many messages by name (20).")
@JSON
@one_line_errors
def audit_command(*, sent: str | None, late: float, show: int, as_json: bool) -> None:
    """Reconcile sends with what is stored, delivered and deleted.

    --sent names a client's log of what was acknowledged: lines of {"message_id", "queue",
    "sent_at"}. Without it every message that was ever stored must have come to one end. All is
    read in one snapshot. Ends with code 1 when messages were lost or duplicated.
    """
    settings = configuration().settings
    with spark_and_database(settings) as (spark, source, _):
        from skipmq.analytics import audit, snapshot, sources  # noqa: PLC0415

        log = audit.sends(spark, sent) if sent else None
        with out.status("reading"), snapshot.taken(source) as taken:
            messages = snapshot.everything(spark, taken).persist()
            messages.count()
            known = sources.known(taken.source)
        found = audit.fates(
            messages, log, now=now(source), late=late,
            known_since=known.since, unkept=known.unkept,
        ).persist()  # fmt: skip
        rows = [row.asDict() for row in audit.totals(found).collect()]
        wrong = [
            row.asDict()
            for row in found.where(found["fate"].isin(list(audit.WRONG)))
            .orderBy("queue", "sent_at")
            .limit(show)
            .collect()
        ]
    failed = sum(row[fate] for row in rows for fate in audit.WRONG)
    if as_json:
        click.echo(json.dumps({"queues": rows, "wrong": wrong}, indent=2, default=str))
    else:
        out.print(_audited(rows))
        for row in wrong:
            out.print(f"[red]{row['fate']}[/] {escape(row['queue'])} {row['message_id']}")
        out.print(
            f"[red]{failed} messages lost or duplicated[/]"
            if failed
            else "every message is accounted for, once"
        )
    if failed:
        sys.exit(_WRONG)


def _audited(rows: Sequence[Mapping[str, Any]]) -> Any:
    if not rows:
        return "no message was sent"
    names = [name for name in rows[0] if name == "queue" or any(row[name] for row in rows)]
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(str(row[name])) for name in names))
    return table
