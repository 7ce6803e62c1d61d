"""The `trouble` command: what needs attention, as on the console's overview."""

import sys
from collections.abc import Iterator, Mapping
from time import sleep
from typing import Any, NamedTuple

import click
from rich.table import Table
from rich.text import Text

from skipmq.broker.trouble_kinds import described
from skipmq.cli import failures, place
from skipmq.cli.environment import configuration
from skipmq.cli.output import err, json_option, limit_option, out, print_json, shown_time, snake
from skipmq.cli.source import open_source
from skipmq.database import monitor, session
from skipmq.protocol import errors

_MAXIMUM, _INTERVAL = 100, 5
_FOUND, _UNKNOWN = 1, 2
_STYLES = {"critical": "bold red", "warning": "yellow"}
_MEMBERS = (
    *("Trouble", "Severity", "Summary", "Account", "Region", "QueueName", "Queues", "Seconds"),
    *("Messages", "DeadLetterQueue", "Reason", "Remedy", "Alert", "Runbook"),
)
_REFUSALS: dict[type[errors.SqsError], str] = {
    errors.NoConnectionSlot: monitor.NO_CONNECTION,
    errors.DatabaseReadOnly: monitor.READ_ONLY,
    errors.DiskFull: monitor.DISK_FULL,
    errors.InsufficientPrivilege: monitor.NO_PRIVILEGE,
}


class _Findings(NamedTuple):
    """The troubles of which up to a limit are listed; `unknown` are parts that were not read."""

    troubles: list[dict[str, Any]]
    found: int
    unknown: list[str]
    error: str | None = None

    @property
    def exit_code(self) -> int:
        """Return 0 if nothing was found, 1 if something was, and 2 where that is unknown."""
        return _FOUND if self.troubles else _UNKNOWN if self.unknown else 0


@click.command()
@place.reached
@limit_option(20, _MAXIMUM, "Maximum number of lines.")
@click.option("--watch", is_flag=True, help=f"Repeat every {_INTERVAL} seconds until Ctrl-C.")
@json_option
def trouble_command(limit: int, *, watch: bool, as_json: bool) -> None:
    """Show what needs attention in the queues of all accounts and regions, the worst first.

    By --endpoint, in those that its key may see. The bounds are those of the alerts, and the words
    those of the console's overview. It exits with 1 if there is something, and with 2 where
    that is unknown.
    """
    context = click.get_current_context()
    while True:
        findings = _found(limit, everywhere=not place.given(context).keys() & {"account", "region"})
        if watch and out.is_terminal:
            out.clear()
        _print(findings, as_json=as_json)
        if not watch:
            sys.exit(findings.exit_code)
        sleep(_INTERVAL)


def _found(limit: int, *, everywhere: bool) -> _Findings:
    """Return what was found, also where the database or the node cannot be reached."""
    try:
        with open_source(everywhere=True) as node:
            answer = node.act("GetOverview", MaxResults=limit, Everywhere=everywhere, Folded=True)
    except Exception as error:
        explained = failures.explain(error)
        if explained is None:
            raise
        return _failed(error, "; ".join(explained.problems))
    endpoint = configuration().settings.endpoint.rstrip("/")
    for each in answer["Troubles"]:
        if each["Runbook"].startswith("/"):
            each["Runbook"] = endpoint + each["Runbook"]
    return _Findings(answer["Troubles"], answer["Found"], answer.get("Unknown", []))


def _failed(error: Exception, text: str) -> _Findings:
    """Return the trouble that an error is, if it is one of the database."""
    unknown = ["nodes", "queues", "totals"]
    if isinstance(error, errors.ServiceUnavailable | errors.NeedsOperator):
        state = _REFUSALS.get(type(error), monitor.UNREACHABLE)
    elif isinstance(error, session.Unavailable):
        state = monitor.state_of(error)
    else:
        return _Findings([], 0, ["database", *unknown], text)
    found = described(f"database-{state.replace('_', '-')}") | {"Reason": text}
    found["Runbook"] = f"{configuration().settings.runbook_url}#{found['Runbook']}"
    return _Findings([found], 1, unknown, text)


def _print(findings: _Findings, *, as_json: bool) -> None:
    if as_json:
        document = {
            "troubles": [_plain(each) for each in findings.troubles],
            "found": findings.found,
            "unknown": findings.unknown,
            "error": findings.error,
        }
        print_json(document)
        return
    if findings.troubles:
        out.print(_table(findings))
    elif not findings.unknown:
        out.print("Nothing needs attention.")
    if findings.unknown:
        reason = f": {findings.error}" if findings.error else ""
        err.print(f"Not known: {', '.join(findings.unknown)}{reason}", soft_wrap=True)


def _plain(trouble: Mapping[str, Any]) -> dict[str, Any]:
    since = shown_time(trouble.get("SinceTimestamp"))
    shown = {snake(name).removesuffix("_name"): trouble.get(name) for name in _MEMBERS}
    return shown | {"since": since}


def _table(findings: _Findings) -> Table:
    table = Table("severity", "since (UTC)", "trouble", box=None, pad_edge=False)
    for each in findings.troubles:
        severity = Text(each["Severity"], style=_STYLES[each["Severity"]], no_wrap=True)
        since = (shown_time(each.get("SinceTimestamp")) or "").replace("T", " ")[5:16]
        table.add_row(severity, Text(since, no_wrap=True), Text("\n".join(_lines(each))))
    if findings.found > len(findings.troubles):
        table.add_row("", "", f"and {findings.found - len(findings.troubles):,} more")
    return table


def _lines(trouble: Mapping[str, Any]) -> Iterator[str]:
    yield trouble["Summary"]
    if "Reason" in trouble:
        yield f"  {trouble['Reason']}"
    if "Queues" in trouble:
        yield f"  {', '.join(trouble['Queues'])}"
    if "Account" in trouble:
        yield f"  account {trouble['Account']}, region {trouble['Region']}"
    address: str = trouble["Runbook"]
    # A node's, of which no address is known.
    section = f"`skipmq runbook {address.partition('#')[2]}`" if address[0] == "/" else address
    yield f"  {trouble['Remedy']} {section}"
