"""Beyond SQS: the dead-letter queues of an account with their sources."""

from typing import Any

from msgspec import structs

from skipmq.actions import access, checks
from skipmq.broker import dead_letters
from skipmq.broker.dead_letters import DeadLetterQueue
from skipmq.broker.node import Node
from skipmq.protocol import extensions
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

_MAXIMUM_RESULTS = 100


async def list_dead_letter_queues(
    node: Node, call: Call[extensions.ListDeadLetterQueues]
) -> dict[str, Any]:
    """List dead-letter queues with their sources, first the absent and then the fullest ones.

    Sources whose attributes the caller may not read are omitted, as are queues without other
    sources. A dead-letter queue whose attributes it may not read has no numbers.
    """
    search, offset, limit = checks.page(call.parameters, _MAXIMUM_RESULTS)
    account, region = call.identity.account, call.identity.region
    rows, others = await dead_letters.queues(
        node.database, account, region, search, limit=limit, offset=offset, deadline=call.deadline
    )
    redelivering = await dead_letters.redelivering(
        node.database, account, region, search, call.deadline
    )
    return {
        "DeadLetterQueues": [shown for row in rows if (shown := _shown(node, call, row))],
        "Matches": len(rows) + others.queues,
        "Redelivering": [
            structs.replace(each, policy="")
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
