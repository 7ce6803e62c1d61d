"""The commands `sessions` and `nodes`: who uses the database server, and the worker processes."""

from collections.abc import Mapping
from typing import Any

import click

from skipmq.cli import place
from skipmq.cli.output import Column, ask, listed, plain, printing_json, yes_option
from skipmq.cli.queue.stats import duration
from skipmq.cli.source import act, open_source


def _state(each: Mapping[str, Any]) -> str:
    state: str = each.get("State", "")
    return state + (f" for {duration(each['StateSeconds'])}" if "StateSeconds" in each else "")


def _figure(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


_SESSIONS = (
    Column("process", is_number=True, of="ProcessId"),
    Column("program", 1, of="Program"),
    Column("role", 4, of="Role"),
    Column("database", 5, of="Database"),
    Column("client", 6, of="ClientAddress"),
    Column("state", 3, of=_state),
    Column("transaction", 1, is_number=True, of="TransactionSeconds", form=duration),
    Column("waits for", 1, of="WaitsFor"),
    Column(
        "blocked by",
        of="BlockedBy",
        form=lambda found: ", ".join(str(pid or "a prepared transaction") for pid in found),
    ),
)
_NODES = (
    Column("process", of="Process"),
    Column("node", 1, of="Node"),
    Column("release", 3, of="Release"),
    Column("up", 2, is_number=True, of="Seconds", form=duration),
    Column("seen", is_number=True, of="SeenSeconds", form=duration),
    Column("requests/s", is_number=True, of="RequestsPerSecond", form=_figure),
    Column("errors/s", is_number=True, of="ErrorsPerSecond", form=_figure),
    Column("p99 ms", is_number=True, of="LatencyMilliseconds", form=_figure),
    Column("loop lag ms", 4, is_number=True, of="LoopLagMilliseconds", form=_figure),
    Column("receivers", 3, is_number=True, of="WaitingReceivers", form=_figure),
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
        return {"sessions": plain(found)}, listed(_SESSIONS, found)
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


@click.command("nodes")
@place.reached
@printing_json
def nodes_command() -> tuple[Any, Any]:
    """Show the worker processes of all nodes with their figures of the last minute."""
    found = act("ListNodes")["Workers"]
    return {"workers": plain(found)}, listed(_NODES, found) if found else "no node is running"
