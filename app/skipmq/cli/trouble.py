"""The `trouble` command: what needs attention, as on the console's overview."""

import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from skipmq.cli import place
from skipmq.cli.output import json_option, out, print_json
from skipmq.cli.source import open_source

_MAXIMUM = 100
_STYLES = {"critical": "bold red", "warning": "yellow"}
_FIELDS = {
    "trouble": "Trouble",
    "severity": "Severity",
    "summary": "Summary",
    "queue": "QueueName",
    "seconds": "Seconds",
    "messages": "Messages",
    "dead_letter_queue": "DeadLetterQueue",
    "alert": "Alert",
    "runbook": "Runbook",
}


@click.command()
@place.reached
@click.option(
    "--limit",
    type=click.IntRange(1, _MAXIMUM),
    default=20,
    show_default=True,
    help="Maximum number of lines.",
)
@json_option
def trouble(limit: int, *, as_json: bool) -> None:
    """Show what needs attention in the queues of an account and region, the worst first.

    The bounds are those of the alerts, and the words those of the console's overview. It exits with
    1 if there is something.
    """
    with open_source() as node:
        found = node.act("GetOverview", MaxResults=limit)
    troubles = found["Troubles"]
    if as_json:
        shown = [{key: each.get(name) for key, name in _FIELDS.items()} for each in troubles]
        print_json({"troubles": shown, "found": found["Found"]})
    else:
        out.print(_table(troubles, found["Found"]) if troubles else "Nothing needs attention.")
    if troubles:
        sys.exit(1)


def _table(troubles: list[Mapping[str, Any]], found: int) -> Table:
    table = Table("severity", "trouble", "runbook", box=None, pad_edge=False)
    for each in troubles:
        severity = Text(each["Severity"], style=_STYLES[each["Severity"]], no_wrap=True)
        table.add_row(severity, Text(each["Summary"]), Text(each["Runbook"]))
    if found > len(troubles):
        table.add_row("", f"and {found - len(troubles):,} more", "")
    return table
