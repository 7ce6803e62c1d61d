"""Beyond SQS: the consumers of a queue, and the workers of all nodes."""

from typing import Any

from skipmq.broker import refusals, workers
from skipmq.broker.consumers import ConsumerRow
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import extensions
from skipmq.protocol.call import Call


async def list_consumers(
    node: Node, call: Call[extensions.ListConsumers], queue: Queue
) -> dict[str, Any]:
    """List the callers that received from a queue, deleted or waited in the last ten minutes.

    Those that were refused on it are listed apart.
    """
    refused = await refusals.recent(
        node.database, queue.name.account, queue.name.region, queue.name.name, call.deadline
    )
    rows = await node.consumers.queue(queue.id, call.deadline)
    return {
        "Consumers": [
            _shown(
                row,
                None
                if row.application is not None
                else user_of(node, row.caller, call.identity.region),
            )
            for row in rows
        ],
        "WaitingReceivers": sum(row.waiting for row in rows),
        "Refused": [
            {
                "Caller": each.caller,
                "Error": each.error,
                "PerMinute": each.per_minute,
                "SinceSeconds": int(each.seconds),
            }
            for each in refused
        ],
    }


def user_of(node: Node, key_id: str, region: str) -> str | None:
    """Return the ARN of the user of an access key, if this node knows the key."""
    if node.keys is None or not key_id:
        return None
    identity = node.keys.identity(key_id, region)
    return None if identity is None else identity.user


def _shown(row: ConsumerRow, user: str | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "Interface": "HTTP" if row.application is None else "SQL",
        "ClientAddress": row.address,
        "Processes": row.processes.split(","),
        "SinceSeconds": int(row.since),
        "WaitingReceivers": row.waiting,
    }
    if row.application is None:
        # An unsigned request has no key.
        shown |= {"AccessKeyId": row.caller} if row.caller else {}
        shown |= {"User": user} if user else {}
        shown |= {"UserAgent": row.user_agent} if row.user_agent else {}
        shown |= {"Receives": row.receives, "Received": row.received, "Deleted": row.deleted}
    else:
        shown |= {"Role": row.caller, "Application": row.application}
    if row.last_receive is not None:
        shown["LastReceiveSeconds"] = int(row.last_receive)
    return shown


async def list_nodes(node: Node, call: Call[extensions.ListNodes]) -> dict[str, Any]:
    """List the worker processes of all nodes with their figures of the last minute."""
    found = await workers.known(node.database, call.deadline)
    return {
        "Workers": [
            {
                "Process": each.process,
                "Host": each.host,
                "Release": each.release,
                "Seconds": int(each.uptime),
                "SeenSeconds": int(each.seen),
                "RequestsPerSecond": each.figures.get("requests"),
                "ErrorsPerSecond": each.figures.get("errors"),
                "LatencyMilliseconds": _milliseconds(each.figures.get("p99")),
                "LoopLagMilliseconds": _milliseconds(each.figures.get("lag")),
                "Processor": each.figures.get("processor"),
                "MemoryBytes": each.figures.get("memory"),
                "Connections": each.figures.get("connections"),
                "DatabaseConnections": each.figures.get("database_connections"),
                "WaitingReceivers": each.figures.get("waiting"),
            }
            for each in found
        ],
        "ThisProcess": node.process,
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 1)
