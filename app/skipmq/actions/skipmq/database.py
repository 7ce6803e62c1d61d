"""Beyond SQS: an overview of the database for operators."""

from time import monotonic
from typing import Any

from skipmq import release
from skipmq.broker.node import Node
from skipmq.broker.overview import Overview, OverviewSnapshot
from skipmq.broker.upkeep import disk
from skipmq.database import monitor
from skipmq.database.pool import Pool
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call


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
            {
                "Relation": each["relation"],
                "Page": each["page"],
                "Error": each["error"],
                "Remedy": each["remedy"],
                "Seconds": int(each["seconds"]),
            }
            for each in server.damage
        ],
        "Standbys": [
            {
                "Name": each["name"],
                "Address": each["address"],
                "State": each["state"],
                "Sync": each["sync"],
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
            {
                "Program": each["program"],
                "Role": each["role"],
                "Database": each["database"],
                "IsInThisDatabase": each["here"],
                "Address": each["address"],
                "Sessions": each["number"],
                "Seconds": None if each["seconds"] is None else int(each["seconds"]),
            }
            for each in server.sessions
        ],
    }
