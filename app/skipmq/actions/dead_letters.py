"""Beyond SQS: the dead-letter queues of an account, with what leads to each."""

from typing import Any

from skipmq.actions import access, checks
from skipmq.model import QueueName
from skipmq.node import Node
from skipmq.protocol import Call, extensions
from skipmq.store.dead_letters import DeadLetterQueue

_MOST = 100


async def list_dead_letter_queues(
    node: Node, call: Call[extensions.ListDeadLetterQueues]
) -> dict[str, Any]:
    """List dead-letter queues, those that are gone and the fullest first, with their sources.

    A redrive policy is an attribute: sources of which the caller may not read these are left out,
    and a queue without any other. A dead-letter queue of which it may not is without numbers.
    """
    search, offset, most = checks.page(call.parameters, _MOST)
    place = call.identity.account, call.identity.region
    rows, others = await node.dead_letters.queues(
        *place, search, limit=most, offset=offset, deadline=call.deadline
    )
    redelivering = await node.dead_letters.redelivering(*place, search, call.deadline)
    return {
        "DeadLetterQueues": [shown for row in rows if (shown := _shown(node, call, row))],
        "Matches": len(rows) + others.queues,
        "Redelivering": [
            {
                "QueueName": each.name,
                "Messages": each.messages,
                "Received": each.received,
                "Deleted": each.deleted,
            }
            for each in redelivering
            if _may_read(node, call, each.name, each.policy)
        ],
    }


def _shown(node: Node, call: Call, row: DeadLetterQueue) -> dict[str, Any] | None:
    sources = [
        {
            "QueueName": each["name"],
            "MaxReceiveCount": each["most"],
            "Messages": each["messages"] or 0,
            "DeadLettered": each["moved"],
        }
        for each in row.sources or []
        if _may_read(node, call, each["name"], each["policy"])
    ]
    if not sources:
        return None
    assert row.name is not None
    shown: dict[str, Any] = {
        "QueueName": row.name,
        "Exists": row.id is not None,
        "SourceCount": row.source_count,
        "Sources": sources,
    }
    if row.id is None or not _may_read(node, call, row.name, row.policy or ""):
        return shown
    return shown | {
        "FifoQueue": row.fifo,
        "DeadLetterQueue": row.next_name,
        "Messages": row.messages,
        "OldestSeconds": None if row.oldest is None else int(row.oldest),
        "Arrived": row.arrived,
    }


def _may_read(node: Node, call: Call, queue: str, policy: str) -> bool:
    name = QueueName(call.identity.account, call.identity.region, queue)
    return access.allows(node, call, "GetQueueAttributes", name, policy)
