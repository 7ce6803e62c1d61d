"""The `analytics advise` command, which recommends visibility timeouts and sets them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skipmq.cli.analytics.engine import ReportInput, computing
from skipmq.cli.analytics.errors import one_line_errors
from skipmq.cli.analytics.options import ENGINE, Selection, selects
from skipmq.cli.environment import configuration, open_database
from skipmq.cli.local import LocalNode, open_node
from skipmq.cli.output import ask, err, json_option, out, print_json, yes_option
from skipmq.config.settings import Settings
from skipmq.database import embedded, schema
from skipmq.database.retry import DatabaseError
from skipmq.protocol import errors, limits
from skipmq.protocol.identity import Identity, QueueName

_FAILED = 1
_TIMEOUT, _CREATED, _MODIFIED = "VisibilityTimeout", "CreatedTimestamp", "LastModifiedTimestamp"
# CreatedTimestamp and LastModifiedTimestamp of an unmodified queue may differ by a second.
_CREATION_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Change:
    """A recommended change of a visibility timeout and its outcome; times in seconds.

    `reported` is the timeout in the report, `present` that of the queue (None: it does not exist).
    """

    account: str
    region: str
    queue: str
    reported: int
    present: int | None
    suggested: int
    advice: str
    processing_p99: float | None
    deleted: int
    timed_out: int
    timed_out_rate: float
    outcome: Literal["advised", "changed", "withheld", "failed"] = "advised"
    reason: str = ""

    @property
    def name(self) -> str:
        """The queue's name, or its ARN if it is not in the default account and region."""
        own = QueueName(limits.DEFAULT_ACCOUNT, limits.DEFAULT_REGION, "").arn
        return QueueName(self.account, self.region, self.queue).arn.removeprefix(own)


@click.command("advise")
@click.option("--apply", is_flag=True, help="Set the recommended timeouts.")
@yes_option
@selects
@ENGINE
@json_option
@one_line_errors
def analytics_advise(
    *,
    apply: bool,
    yes: bool,
    selection: Selection,
    engine: str,
    as_json: bool,
) -> None:
    """Recommend visibility timeouts, and set them with --apply.

    Recommendations are those of the report, by default of the last day, and need 100 messages of a
    queue. They are withheld if
    the queue's attributes were changed during the reported period or after it, which is not known
    of a lake where no broker is reached. Changes are recorded in the audit log. The exit code is 1
    if a timeout could not be set.
    """
    if apply and not (yes or sys.stdin.isatty()):
        raise click.UsageError(
            "--apply asks for confirmation on a terminal: without one, add --yes"
        )
    settings = configuration().settings
    # Check the broker before the report, which may take long.
    with _broker(settings, is_needed=apply or not selection.lake) as has_broker:
        source, rows = _recommendations(settings, selection, engine)
        with open_node(settings) if has_broker else nullcontext() as node:
            compared = (_compared(node, row, source.period.since) for row in rows)
            changes = [each for each in compared if each.present != each.suggested]
            advised = [each for each in changes if each.outcome == "advised"]
            if not as_json:
                _print_changes(changes, out)
            if node and apply and advised:
                if not yes:
                    _confirm(advised, shown=not as_json)
                changes = list(_apply(node, changes, verbose=not as_json))
    if as_json:
        result = {
            "since": source.period.since,
            "until": source.period.until,
            "engine": source.engine.name,
            "changes": [asdict(each) for each in changes],
        }
        print_json(result)
    elif advised and not apply:
        how = "use --apply" if has_broker else "no broker was reached, whose timeouts may differ"
        out.print(f"nothing was changed: {how}; computed by {source.description}")
    elif not advised:
        out.print(f"nothing to change; computed by {source.description}")
    if any(each.outcome == "failed" for each in changes):
        sys.exit(_FAILED)


@contextmanager
def _broker(settings: Settings, *, is_needed: bool) -> Iterator[bool]:
    """Yield whether the broker's database is available; raise if it is not and needed."""
    with ExitStack() as stack:
        try:
            schema.check(stack.enter_context(open_database(settings))[1])
        except (embedded.EmbeddedError, DatabaseError):
            if is_needed:
                raise
            yield False
        else:
            yield True


def _recommendations(
    settings: Settings, selection: Selection, engine: str
) -> tuple[ReportInput, Sequence[Mapping[str, Any]]]:
    """Return the report's input, and its rows that recommend another timeout."""
    with computing(settings, selection, engine) as source:
        from skipmq.analytics.reports import report  # noqa: PLC0415 - an extra.

        with (
            out.status("reporting"),
            report.reports(source.engine, source.history, source.queues, source.period) as computed,
        ):
            rows = computed["visibility"]().to_pylist()
    return source, [
        row for row in rows if row["suggested_timeout"] not in (None, row["visibility_timeout"])
    ]


def _compared(node: LocalNode | None, row: Mapping[str, Any], since: datetime) -> Change:
    """Compare a row of the report with the present state of its queue, if there is a broker."""
    change = Change(
        *(row["account"], row["region"], row["queue"]),
        row["visibility_timeout"],
        None,
        *(row["suggested_timeout"], row["advice"], row["processing_p99"]),
        *(row["deleted"], row["timed_out"], row["timed_out_rate"]),
    )
    if node is None:
        return change
    try:
        present = _present(node, change)
    except errors.QueueDoesNotExist:
        return replace(change, outcome="withheld", reason="the queue does not exist")
    change = replace(change, present=present[_TIMEOUT])
    is_unmodified = present[_MODIFIED] - present[_CREATED] <= _CREATION_SECONDS
    modified = datetime.fromtimestamp(present[_MODIFIED], UTC)
    if change.present == change.reported and (is_unmodified or modified <= since):
        return change
    before = f"{change.reported} s in the report; " if change.present != change.reported else ""
    reason = (
        f"{before}the queue was changed at {modified:%Y-%m-%d %H:%M:%S} UTC:"
        f" use --since {modified:%Y-%m-%dT%H:%M:%S}"
    )
    return replace(change, outcome="withheld", reason=reason)


def _present(node: LocalNode, change: Change) -> dict[str, int]:
    """Read a queue's timeout and timestamps; raise errors.QueueDoesNotExist."""
    names = [_TIMEOUT, _CREATED, _MODIFIED]
    owner = Identity(change.account, change.region)
    result = node.act("GetQueueAttributes", owner, QueueUrl=change.queue, AttributeNames=names)
    return {name: int(result["Attributes"][name]) for name in names}


def _confirm(advised: Sequence[Change], *, shown: bool) -> None:
    if not shown:
        _print_changes(advised, err)
    ask(f"Set {len(advised)} visibility timeouts?", "nothing was changed")


def _apply(node: LocalNode, changes: Sequence[Change], *, verbose: bool) -> Iterator[Change]:
    """Set the recommended timeouts, and yield the changes with their outcomes."""
    for change in changes:
        done = _set(node, change) if change.outcome == "advised" else change
        if verbose and done.outcome == "changed":
            out.print(f"{escape(done.name)}: {done.present} s → {done.suggested} s")
        elif verbose and done.outcome == "failed":
            out.print(f"[red]{escape(done.name)}: not changed: {escape(done.reason)}[/]")
        yield done


def _set(node: LocalNode, change: Change) -> Change:
    owner = Identity(change.account, change.region)
    try:
        present = _present(node, change)[_TIMEOUT]
        if present != change.present:
            reason = f"it was set to {present} s in the meantime"
            return replace(change, outcome="failed", reason=reason)
        attributes = {_TIMEOUT: str(change.suggested)}
        node.act("SetQueueAttributes", owner, QueueUrl=change.queue, Attributes=attributes)
    except errors.SqsError as error:
        return replace(change, outcome="failed", reason=f"{error.code}: {error.message}")
    return replace(change, outcome="changed")


def _processing(change: Change) -> str:
    p99 = change.processing_p99
    return "" if p99 is None else f"p99 of processing {p99:.3g} s, "


def _print_changes(changes: Sequence[Change], to: Console) -> None:
    if not changes:
        return
    table = Table("queue", "present", "recommended", "reason", "", box=None, pad_edge=False)
    for each in changes:
        rate = f"{100 * each.timed_out_rate:.1f} %"
        table.add_row(
            escape(each.name),
            "" if each.present is None else f"{each.present} s",
            f"{each.suggested} s",
            f"{_processing(each)}{each.deleted:,} deleted;"
            f" {each.timed_out:,} redelivered after their timeout ({rate})",
            f"not changed: {escape(each.reason)}" if each.outcome == "withheld" else "",
        )
    to.print(table)
