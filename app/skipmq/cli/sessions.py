"""The commands `sessions` and `nodes`: who uses the database server, and the worker processes."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from skipmq.cli import place
from skipmq.cli.output import ask, cell, plain, printing_json, yes_option
from skipmq.cli.queue.stats import duration
from skipmq.cli.source import act, open_source
from skipmq.cli.tables import Column, table

_SESSIONS = (
    Column("process", is_number=True),
    Column("program", 1),
    Column("role", 4),
    Column("database", 5),
    Column("client", 6),
    Column("state", 3),
    Column("transaction", 1, is_number=True),
    Column("waits for", 1),
    Column("blocked by", 0),
)
_NODES = (
    Column("process"),
    Column("node", 1),
    Column("release", 3),
    Column("up", 2, is_number=True),
    Column("seen", 0, is_number=True),
    Column("requests/s", 0, is_number=True),
    Column("errors/s", 0, is_number=True),
    Column("p99 ms", 0, is_number=True),
    Column("loop lag ms", 4, is_number=True),
    Column("receivers", 3, is_number=True),
)


@click.command("sessions")
@place.reached
@click.option("--cancel", type=click.IntRange(1), metavar="PROCESS", help="Cancel its statement.")
@click.option("--terminate", type=click.IntRange(1), metavar="PROCESS", help="End this session.")
@click.option(
    "--partition", type=click.IntRange(0), default=0, help="Of this partition of a router."
)
@yes_option
@printing_json
def sessions_command(
    *, cancel: int | None, terminate: int | None, partition: int, yes: bool
) -> tuple[Any, Any]:
    """Show the sessions of the database server, and who blocks whom.

    Those that block others are first, then those that wait, then the oldest transactions. To cancel
    or terminate one needs the role admin.
    """
    if cancel is not None and terminate is not None:
        raise click.UsageError("specify one of --cancel and --terminate")
    process = cancel or terminate
    if process is None:
        found = act("ListSessions", Partition=partition)["Sessions"]
        return {"sessions": plain(found)}, table(_SESSIONS, [_session(each) for each in found])
    with open_source() as node:
        found = node.act("ListSessions", Partition=partition)["Sessions"]
        one = next((each for each in found if each["ProcessId"] == process), None)
        if one is None:
            raise click.ClickException(f"there is no session of process {process}")
        what = "Cancel the statement of" if cancel else "Terminate"
        if not yes:
            ask(f"{what} {_described(one)}?", "nothing was changed")
        kind = "cancel" if cancel else "terminate"
        node.act(
            "EndSession",
            ProcessId=process,
            Kind=kind,
            StartedMicroseconds=one.get("StartedMicroseconds"),
            Partition=partition,
        )
    done = "cancelled the statement of" if cancel else "terminated"
    return {"process_id": process, "kind": kind}, f"{done} {_described(one)}"


def _described(each: Mapping[str, Any]) -> str:
    return (
        f"process {each['ProcessId']}: {each.get('Program') or 'no name'}, role {each.get('Role')},"
        f" database {each.get('Database')}"
    )


def _session(each: Mapping[str, Any]) -> Sequence[str]:
    state = each.get("State", "")
    if "StateSeconds" in each:
        state += f" for {duration(each['StateSeconds'])}"
    return (
        cell(each["ProcessId"]),
        cell(each.get("Program")),
        cell(each.get("Role")),
        cell(each.get("Database")),
        cell(each.get("ClientAddress")),
        state,
        duration(each.get("TransactionSeconds")),
        cell(each.get("WaitsFor")),
        ", ".join(str(pid or "a prepared transaction") for pid in each["BlockedBy"]),
    )


@click.command("nodes")
@place.reached
@printing_json
def nodes_command() -> tuple[Any, Any]:
    """Show the worker processes of all nodes with their figures of the last minute."""
    found = act("ListNodes")["Workers"]
    rows = [
        (
            each["Process"],
            each["Node"],
            each["Release"],
            duration(each["Seconds"]),
            duration(each["SeenSeconds"]),
            _figure(each["RequestsPerSecond"]),
            _figure(each["ErrorsPerSecond"]),
            _figure(each["LatencyMilliseconds"]),
            _figure(each["LoopLagMilliseconds"]),
            _figure(each["WaitingReceivers"]),
        )
        for each in found
    ]
    return {"workers": plain(found)}, table(_NODES, rows) if rows else "no node is running"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}".removesuffix(".0")
