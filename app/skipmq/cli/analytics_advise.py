"""The command that sets the visibility timeouts which the report on them advises."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skipmq import errors, limits
from skipmq.cli.analytics import JSON
from skipmq.cli.analytics_engine import Read, Wanted, opened
from skipmq.cli.analytics_errors import one_line_errors
from skipmq.cli.analytics_options import ENGINE, LAKE, QUEUES, SINCE, UNTIL, in_order
from skipmq.cli.environment import configuration, open_database
from skipmq.cli.local import LocalNode
from skipmq.cli.node import open_node
from skipmq.cli.output import out
from skipmq.database import schema
from skipmq.model import Identity, QueueName
from skipmq.settings import Settings

_FAILED = 1
_TIMEOUT, _CREATED, _MODIFIED = "VisibilityTimeout", "CreatedTimestamp", "LastModifiedTimestamp"
# Seconds by which a queue's first attributes may seem to be younger than the queue.
_AT_ONCE = 1


@dataclass(frozen=True, slots=True)
class Change:
    """A visibility timeout that the report advises against, and what came of it; in seconds.

    `reported` is what the report measured by, `present` what the queue has now (None: it is gone).
    """

    account: str
    region: str
    queue: str
    reported: int
    present: int | None
    suggested: int
    advice: str
    processing_p99: float
    deleted: int
    timed_out: int
    timed_out_rate: float
    outcome: Literal["advised", "changed", "withheld", "failed"] = "advised"
    reason: str = ""

    @property
    def name(self) -> str:
        """The queue's name, or its ARN where account or region are not the default ones."""
        own = QueueName(limits.DEFAULT_ACCOUNT, limits.DEFAULT_REGION, "").arn
        return QueueName(self.account, self.region, self.queue).arn.removeprefix(own)


@click.command("advise")
@click.option("--apply", is_flag=True, help="Set the timeouts that are advised.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@LAKE
@SINCE
@UNTIL
@QUEUES
@ENGINE
@JSON
@one_line_errors
def advise_command(
    *,
    apply: bool,
    yes: bool,
    lake: str | None,
    since: datetime | None,
    until: datetime | None,
    queues: tuple[str, ...],
    engine: str,
    as_json: bool,
) -> None:
    """Advise on visibility timeouts, and set them with --apply.

    The advice is that of the report, which wants 100 deleted messages of a queue. It is withheld
    where the queue's attributes were changed within the time reported on, or since. What --apply
    sets stands in the audit log. Ends with code 1 when a timeout could not be set.
    """
    in_order(since, until)
    if apply and not (yes or sys.stdin.isatty()):
        raise click.UsageError(
            "--apply asks on a terminal before it changes anything, and here is none: add --yes"
        )
    settings = configuration().settings
    # A broker that is not there is no news for the end of a long report.
    with open_database(settings) as (_, url):
        schema.check(url)
        read, rows = _advised(settings, Wanted(lake, since, until, queues), engine)
        with open_node(settings) as node:
            compared = (_compared(node, row, read.period.since) for row in rows)
            changes = [each for each in compared if each.present != each.suggested]
            wanted = [each for each in changes if each.outcome == "advised"]
            if not as_json:
                _show(changes, out)
            if apply and wanted:
                if not yes:
                    _ask(wanted, shown=not as_json)
                changes = list(_applied(node, changes, tell=not as_json))
    if as_json:
        said = {
            "since": read.period.since,
            "until": read.period.until,
            "engine": read.engine,
            "changes": [asdict(each) for each in changes],
        }
        click.echo(json.dumps(said, indent=2, default=str))
    elif wanted and not apply:
        out.print(f"nothing was changed, --apply sets what is advised; computed by {read.said}")
    elif not wanted:
        out.print(f"nothing to change; computed by {read.said}")
    if any(each.outcome == "failed" for each in changes):
        sys.exit(_FAILED)


def _advised(
    settings: Settings, wanted: Wanted, engine: str
) -> tuple[Read, Sequence[Mapping[str, Any]]]:
    """Return what was read, and the report's rows that advise another timeout."""
    with opened(settings, wanted, engine) as read:
        from skipmq.analytics import report  # noqa: PLC0415 - an extra.

        with (
            out.status("reporting"),
            report.reports(read.history, read.queues, read.period) as computed,
        ):
            rows = computed["visibility"]().toArrow().to_pylist()
    return read, [
        row for row in rows if row["suggested_timeout"] not in (None, row["visibility_timeout"])
    ]


def _compared(node: LocalNode, row: Mapping[str, Any], since: datetime) -> Change:
    """Return what a row of the report advises, by what its queue is now."""
    change = Change(
        *(row["account"], row["region"], row["queue"]),
        row["visibility_timeout"],
        None,
        *(row["suggested_timeout"], row["advice"], row["processing_p99"]),
        *(row["deleted"], row["timed_out"], row["timed_out_rate"]),
    )
    try:
        present = _present(node, change)
    except errors.QueueDoesNotExist:
        return replace(change, outcome="withheld", reason="the queue is gone")
    change = replace(change, present=present[_TIMEOUT])
    is_as_created = present[_MODIFIED] - present[_CREATED] <= _AT_ONCE
    modified = datetime.fromtimestamp(present[_MODIFIED], UTC)
    if change.present == change.reported and (is_as_created or modified <= since):
        return change
    before = f"{change.reported} s in the report; " if change.present != change.reported else ""
    reason = (
        f"{before}the queue was changed at {modified:%Y-%m-%d %H:%M:%S} UTC:"
        f" advise on what came after, --since {modified:%Y-%m-%dT%H:%M:%S}"
    )
    return replace(change, outcome="withheld", reason=reason)


def _present(node: LocalNode, change: Change) -> dict[str, int]:
    """Read a queue's timeout and ages; raise errors.QueueDoesNotExist."""
    names = [_TIMEOUT, _CREATED, _MODIFIED]
    whose = Identity(change.account, change.region)
    found = node.act("GetQueueAttributes", whose, QueueUrl=change.queue, AttributeNames=names)
    return {name: int(found["Attributes"][name]) for name in names}


def _ask(wanted: Sequence[Change], *, shown: bool) -> None:
    if not shown:
        _show(wanted, Console(stderr=True, highlight=False))
    click.confirm(f"Set {len(wanted)} visibility timeouts?", abort=True, err=True)


def _applied(node: LocalNode, changes: Sequence[Change], *, tell: bool) -> Iterator[Change]:
    """Set what is advised, one by one, and give what came of each."""
    for change in changes:
        done = _set(node, change) if change.outcome == "advised" else change
        if tell and done.outcome == "changed":
            out.print(f"{escape(done.name)}: {done.present} s → {done.suggested} s")
        elif tell and done.outcome == "failed":
            out.print(f"[red]{escape(done.name)}: not changed: {escape(done.reason)}[/]")
        yield done


def _set(node: LocalNode, change: Change) -> Change:
    whose = Identity(change.account, change.region)
    try:
        present = _present(node, change)[_TIMEOUT]
        if present != change.present:
            reason = f"it was set to {present} s meanwhile"
            return replace(change, outcome="failed", reason=reason)
        attributes = {_TIMEOUT: str(change.suggested)}
        node.act("SetQueueAttributes", whose, QueueUrl=change.queue, Attributes=attributes)
    except errors.SqsError as error:
        return replace(change, outcome="failed", reason=f"{error.code}: {error.message}")
    return replace(change, outcome="changed")


def _show(changes: Sequence[Change], to: Console) -> None:
    if not changes:
        return
    table = Table("queue", "now", "advised", "why", "", box=None, pad_edge=False)
    for each in changes:
        rate = f"{100 * each.timed_out_rate:.1f} %"
        table.add_row(
            escape(each.name),
            "" if each.present is None else f"{each.present} s",
            f"{each.suggested} s",
            f"p99 of processing {each.processing_p99:.3g} s, {each.deleted:,} deleted;"
            f" {each.timed_out:,} redelivered after their timeout ({rate})",
            f"not changed: {escape(each.reason)}" if each.outcome == "withheld" else "",
        )
    to.print(table)
