"""Beyond SQS: the consumers of a queue, and the workers of all nodes."""

from typing import Any

from skipmq.broker import refusals, workers
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
    for row in rows:
        row.user = user_of(node, row.access_key_id)
    return {
        "Consumers": rows,
        "WaitingReceivers": sum(row.waiting_receivers for row in rows),
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


def user_of(node: Node, key_id: str | None) -> str | None:
    """Return the ARN of the user of an access key, also of a revoked one, if it has one."""
    if node.keys is None or not key_id:
        return None
    return node.keys.user(key_id)


def receiver(node: Node, text: str | None) -> dict[str, str | None]:
    """Return what is known of a receiver as groups and failures keep it, by members of structs."""
    if text is None:
        return {}
    interface, caller, address = text.split("/", 2)
    if interface == "sql":
        address, _, application = address.partition("/")
        return {"role": caller, "application": application, "client_address": address}
    user = user_of(node, caller)
    return {"access_key_id": caller or None, "user": user, "client_address": address}


async def list_nodes(node: Node, call: Call[extensions.ListNodes]) -> dict[str, Any]:
    """List the worker processes of all nodes with their figures of the last minute."""
    found = await workers.known(node.database, call.deadline)
    return {
        "Workers": [
            {
                "Process": each.process,
                "Host": each.host,
                "Node": each.node,
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
