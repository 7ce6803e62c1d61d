"""Beyond SQS: an overview of the database for operators."""

from time import monotonic
from typing import Any

import skipmq
from skipmq import errors
from skipmq.database import monitor
from skipmq.node import Node
from skipmq.protocol import Call, extensions
from skipmq.store.overview import OverviewSnapshot


async def describe_database(
    node: Node, call: Call[extensions.DescribeDatabase] | None = None
) -> dict[str, Any]:
    """Describe the database, its standbys and the programs connected to it.

    While the database is unavailable the answer is the latest overview, if any, with its age. The
    answer is not limited to the caller's account.
    """
    del call
    snapshot, error = await node.overview.current()
    state = node.monitor.state
    described: dict[str, Any] = {
        "State": state,
        "StateSeconds": int(monotonic() - node.monitor.since),
        "Node": _node(node),
    }
    if state != monitor.WRITABLE or error is not None:
        described["Reason"] = node.monitor.reason or _reason(error)
    if snapshot is not None:
        described |= _snapshot(snapshot) | {"KnownSeconds": int(monotonic() - snapshot.at)}
    return described


def _reason(error: errors.SqsError | None) -> str | None:
    if isinstance(error, errors.NeedsOperator) and error.reason:
        return error.reason
    return error.message if error is not None else None


def _node(node: Node) -> dict[str, Any]:
    now, available = monotonic(), node.database.availability
    described: dict[str, Any] = {
        "Release": skipmq.__version__,
        "Process": node.process,
        "Workers": node.settings.worker_count,
        "Seconds": int(now - skipmq.STARTED),
        "Outages": available.outages,
        "DatabaseAddress": node.database.address,
    }
    if available.failure is None:
        described["AvailableSeconds"] = int(now - available.available_since)
    if available.last_outage is not None:
        began, ended = available.last_outage
        described["LastOutageSeconds"] = round(ended - began)
        described["LastOutageEndedSeconds"] = int(now - ended)
    return described


def _snapshot(snapshot: OverviewSnapshot) -> dict[str, Any]:
    server, level = snapshot.server, snapshot.level
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
        },
        "Replication": replication,
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
                "Address": each["address"],
                "Sessions": each["number"],
                "Seconds": None if each["seconds"] is None else int(each["seconds"]),
            }
            for each in server.sessions
        ],
    }
