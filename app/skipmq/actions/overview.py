"""Beyond SQS: the queues of an account with the counts of their messages, in pages."""

from typing import Any

from skipmq import errors, limits
from skipmq.actions import access, checks
from skipmq.model import QueueName
from skipmq.node import Node
from skipmq.protocol import Call

_ORDERS = ("name", "messages")
_DEFAULT, _OFFSET_MOST = 50, 10_000_000


async def list_queue_counts(node: Node, call: Call) -> dict[str, Any]:
    """List queues whose names contain a text, with their counts.

    A queue of which the caller may not read the attributes is listed without counts.
    """
    wanted = call.parameters
    order, offset, most = wanted.Order or "name", wanted.Offset or 0, wanted.MaxResults or _DEFAULT
    if order not in _ORDERS:
        raise checks.invalid(order, "Order", f"Must be one of {', '.join(_ORDERS)}, if provided.")
    checks.between(offset, 0, _OFFSET_MOST, "Offset", f"Must be between 0 and {_OFFSET_MOST}.")
    most_of_all = limits.COUNTED_QUEUES
    checks.between(most, 1, most_of_all, "MaxResults", f"Must be between 1 and {most_of_all}.")
    if "\0" in (wanted.Search or ""):
        raise errors.InvalidParameterValueException("A text cannot contain NUL.")
    account, region = call.identity.account, call.identity.region
    rows = await node.queues.counts(
        account,
        region,
        search=wanted.Search or "",
        order=order,
        descending=bool(wanted.Descending),
        offset=offset,
        limit=most,
        deadline=call.deadline,
    )
    queues = []
    for row in rows:
        found: dict[str, Any] = {
            "QueueName": row.name,
            "FifoQueue": row.fifo,
            "DeadLetterQueue": row.dead_letters,
        }
        name = QueueName(account, region, row.name)
        if access.allows(node, call, "GetQueueAttributes", name, row.policy):
            found["Visible"], found["InFlight"] = row.visible, row.in_flight
            found["Delayed"] = row.delayed
        queues.append(found)
    return {"Queues": queues, "Matches": rows[0].matches if rows else 0}
