"""Beyond SQS: an overview of the database for operators, and the sessions of its server."""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from skipmq import release
from skipmq.actions import checks
from skipmq.broker import overview
from skipmq.broker.node import Node
from skipmq.broker.overview import Overview, OverviewSnapshot
from skipmq.broker.upkeep import disk
from skipmq.database import monitor
from skipmq.database.pool import Pool
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Identity

_KINDS = ("cancel", "terminate")


async def describe_database(
    node: Node, call: Call[extensions.DescribeDatabase] | None = None
) -> dict[str, Any]:
    """Describe the database, or each partition: its standbys and the programs connected to it.

    While one is unavailable the answer has its latest overview, if any, with its age. The answer
    is not limited to the caller's account.
    """
    del call
    overviews = await node.overviews.current()
    state, reason = node.monitor.state, node.monitor.reason
    described: dict[str, Any] = {
        "State": state,
        "StateSeconds": int(monotonic() - node.monitor.since),
        "Node": _process(node) | _connections(node.database.pool),
    }
    if overviews[0].pool is node.database.pool:
        (overview,) = overviews
        if state not in monitor.SERVING or overview.error is not None:
            described["Reason"] = reason or _reason(overview.error)
        return described | _known(overview)
    if state not in monitor.SERVING:
        described["Reason"] = reason
    described["Partitions"] = [_partition(*each) for each in enumerate(overviews)]
    return described


def _partition(number: int, overview: Overview) -> dict[str, Any]:
    availability = overview.pool.availability
    described: dict[str, Any] = {
        "Partition": number,
        "State": monitor.state_of(availability.failure),
        "StateSeconds": int(monotonic() - availability.since),
        "Node": _connections(overview.pool),
    }
    if overview.error is not None:
        failure = " ".join(str(availability.failure or "").split())
        described["Reason"] = failure or _reason(overview.error)
    return described | _known(overview)


def _reason(error: errors.SqsError | None) -> str | None:
    if isinstance(error, errors.NeedsOperator) and error.reason:
        return error.reason
    return error.message if error is not None else None


def _process(node: Node) -> dict[str, Any]:
    return {
        "Release": release.VERSION,
        "Process": node.process,
        "Workers": node.settings.worker_count,
        "Seconds": int(monotonic() - release.STARTED),
    }


def _connections(pool: Pool) -> dict[str, Any]:
    """Return where a pool of connections leads, and its outages."""
    now, available = monotonic(), pool.availability
    described: dict[str, Any] = {"Outages": available.outages, "DatabaseAddress": pool.address}
    if available.failure is None:
        described["AvailableSeconds"] = int(now - available.since)
    if available.last_outage is not None:
        began, ended = available.last_outage
        described["LastOutageSeconds"] = round(ended - began)
        described["LastOutageEndedSeconds"] = int(now - ended)
    return described


def _known(overview: Overview) -> dict[str, Any]:
    snapshot = overview.snapshot
    if snapshot is None:
        return {}
    return _snapshot(snapshot) | {"KnownSeconds": int(monotonic() - snapshot.at)}


def _named(row: Mapping[str, Any], **names: str) -> dict[str, Any]:
    return {member: row[name] for member, name in names.items()}


def _snapshot(snapshot: OverviewSnapshot) -> dict[str, Any]:
    server, level = snapshot.server, snapshot.level
    found = disk(server.data_directory)
    oldest = server.oldest_snapshot
    replication: dict[str, Any] = {
        "Summary": str(level),
        "Names": level.names,
        "Required": level.required,
        "StandbyCount": server.standby_count,
    }
    if not server.may_see:
        replication["Remedy"] = f'grant pg_monitor to "{server.owner}"'
    return {
        "Server": {
            "Host": server.host,
            "Port": server.port,
            "Version": server.version,
            "SchemaRevision": server.revision,
            "StartedTimestamp": int(server.started_at),
            "Seconds": int(server.now - server.started_at),
            "Timeline": server.timeline,
            "OldestSnapshotSeconds": None if oldest is None else int(oldest),
            "OldestSnapshotSession": server.oldest_session,
            "ReservedSessions": server.reserved,
            "Disk": found and {"TotalBytes": found.total, "FreeBytes": found.free},
        },
        "Replication": replication,
        "Damage": [
            _named(each, Relation="relation", Page="page", Error="error", Remedy="remedy")
            | {"Seconds": int(each["seconds"])}
            for each in server.damage
        ],
        "Standbys": [
            _named(each, Name="name", Address="address", State="state", Sync="sync")
            | {
                "LagBytes": None if each["bytes"] is None else int(each["bytes"]),
                "LagMilliseconds": round(1000 * each["seconds"]),
            }
            for each in server.standbys
        ],
        "Numbers": [
            {"Name": name, "Label": label, "Value": int(value)}
            for (name, label), value in snapshot.metrics.items()
        ],
        "Programs": [
            _named(each, Program="program", Role="role", Database="database")
            | _named(each, IsInThisDatabase="here", Address="address", Sessions="number")
            | {
                "Seconds": None if each["seconds"] is None else int(each["seconds"]),
            }
            for each in server.sessions
        ],
    }


async def list_sessions(node: Node, call: Call[extensions.ListSessions]) -> dict[str, Any]:
    """List the sessions of the database server, or of a partition's, with who blocks whom.

    Those that block others are first, then those that wait. The answer is not limited to the
    caller's account, so keys of other accounts than the node's own are refused.
    """
    if not may_list(node, call.identity):
        raise _denied(node, "may list its sessions.")
    return {"Sessions": await overview.sessions(await _pool(node, call), call.deadline)}


async def end_session(node: Node, call: Call[extensions.EndSession]) -> dict[str, Any]:
    """Cancel the statement of a session, or terminate it.

    That is for keys of the node's own account, and for the command line of the node's host.
    """
    parameters, kind = call.parameters, call.parameters.Kind
    if not may_end(node, call.identity):
        raise _denied(
            node,
            "may end its sessions. Where signatures are not checked (SKIPMQ_AUTH), use `skipmq"
            " sessions` on the host of a node, without --endpoint.",
        )
    checks.one_of(kind, _KINDS, "Kind")
    checks.between(parameters.ProcessId, 1, 2**31 - 1, "ProcessId", "Must be a process number.")
    outcome = await overview.end_session(
        await _pool(node, call),
        parameters.ProcessId,
        parameters.StartedMicroseconds,
        terminates=kind == "terminate",
        deadline=call.deadline,
    )
    if outcome == "missing":
        raise errors.ResourceNotFoundException("The session does not exist any more.")
    if outcome == "refused":
        raise errors.UnsupportedOperation(
            "The owner of the schema may not end this session: it needs pg_signal_backend and"
            " pg_monitor, or the session's role; a superuser's only a superuser ends."
        )
    return {}


def may_list(node: Node, identity: Identity) -> bool:
    """Return whether an identity may see the sessions of all accounts; unsigned ones see all."""
    return identity.key_id is None or identity.account == node.settings.account


def may_end(node: Node, identity: Identity) -> bool:
    """Return whether an identity may end sessions; unsigned, only a local command may."""
    return identity.is_operator or (identity.key_id is not None and may_list(node, identity))


def _denied(node: Node, what: str) -> errors.AccessDenied:
    return errors.AccessDenied(
        "All accounts share the database: only keys of account"
        f" {node.settings.account} (SKIPMQ_ACCOUNT) {what}"
    )


async def _pool(node: Node, call: Call[Any]) -> Pool:
    await node.database.open_partitions()
    pools: Sequence[Pool] = node.database.known()
    number = call.parameters.Partition or 0
    checks.between(number, 0, len(pools) - 1, "Partition")
    return pools[number]
