"""Beyond SQS: the dead-letter queues of an account with their sources."""

from typing import Any

from msgspec import UNSET, structs

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
        "DeadLetterQueues": [shown for row in rows if (shown := _shown(node, call, row)).sources],
        "Matches": len(rows) + others.queues,
        "Redelivering": [
            structs.replace(each, policy="")
            for each in redelivering
            if _may_read(node, call, each.name, each.policy)
        ],
    }


def _shown(node: Node, call: Call, row: DeadLetterQueue) -> DeadLetterQueue:
    """Return what the caller may see of a queue."""
    sources = [
        structs.replace(each, messages=each.messages or 0, policy=None)
        for each in row.sources
        if _may_read(node, call, each.name, each.policy)
    ]
    assert row.name is not None
    shown = structs.replace(row, sources=sources, policy=None)
    if row.exists and _may_read(node, call, row.name, row.policy):
        return shown
    numbers = dict.fromkeys(("fifo", "next_name", "messages", "oldest", "arrived"), UNSET)
    return structs.replace(shown, **numbers)


def _may_read(node: Node, call: Call, queue: str, policy: str | None) -> bool:
    name = QueueName(call.identity.account, call.identity.region, queue)
    return access.allows(node, call, "GetQueueAttributes", name, policy or "")
