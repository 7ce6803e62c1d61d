"""Beyond SQS: the queues of an account with their statistics, in pages."""

from collections.abc import Sequence
from typing import Any

from skipmq import limits
from skipmq.actions import access, checks
from skipmq.model import QueueMinute, QueueName, QueueStatistics
from skipmq.node import Node
from skipmq.protocol import Call, extensions
from skipmq.store import statistics

MINUTES_MOST = 360
_NUMBERS = {
    "Visible": "visible",
    "InFlight": "in_flight",
    "Delayed": "delayed",
    "Sent": "sent",
    "Received": "received",
    "Deleted": "deleted",
    "Expired": "expired",
    "DeadLettered": "dead_lettered",
}
_RATES = {
    "SentPerMinute": "send_rate",
    "ReceivedPerMinute": "receive_rate",
    "DeletedPerMinute": "delete_rate",
}
_OF_MINUTE = {
    "Minute": "minute",
    "Sent": "sent",
    "Received": "received",
    "Deleted": "deleted",
    "DeadLettered": "dead_lettered",
    "Messages": "messages",
}


async def list_queue_statistics(
    node: Node, call: Call[extensions.ListQueueStatistics]
) -> dict[str, Any]:
    """List queues whose names contain a text, with what they hold and what happens in them.

    A queue of which the caller may not read the attributes is listed without numbers.
    """
    wanted = call.parameters
    order = wanted.Order or "name"
    if order not in statistics.ORDERS:
        raise checks.invalid(
            order, "Order", f"Must be one of {', '.join(statistics.ORDERS)}, if provided."
        )
    search, offset, most = checks.page(wanted, limits.COUNTED_QUEUES)
    checks.between(
        wanted.Minutes, 1, MINUTES_MOST, "Minutes", f"Must be between 1 and {MINUTES_MOST}."
    )
    account, region = call.identity.account, call.identity.region
    rows, others = await node.statistics.queues(
        most,
        account=account,
        region=region,
        search=search,
        order=order,
        descending=wanted.Descending,
        offset=offset,
        deadline=call.deadline,
    )
    minutes: dict[int, list[QueueMinute]] = {}
    clock = {}
    if wanted.Minutes:
        queues = [row.id for row in rows if row.id is not None]
        minutes = await node.statistics.minutes(queues, wanted.Minutes, call.deadline)
        clock = {"Clock": int(await node.inspection.clock(call.deadline))}
    found = [_shown(node, call, row, minutes.get(row.id or 0, [])) for row in rows]
    return {**clock, "Queues": found, "Matches": len(rows) + others.queues}


def _shown(
    node: Node, call: Call, row: QueueStatistics, minutes: Sequence[QueueMinute]
) -> dict[str, Any]:
    assert row.queue is not None
    shown = {"QueueName": row.queue, "FifoQueue": row.fifo, "DeadLetterQueue": row.dead_letters}
    name = QueueName(call.identity.account, call.identity.region, row.queue)
    if not access.allows(node, call, "GetQueueAttributes", name, row.policy or ""):
        return shown
    numbers = {member: getattr(row, field) for member, field in _NUMBERS.items()}
    rates = {member: round(60 * getattr(row, field)) for member, field in _RATES.items()}
    oldest = None if row.oldest is None else int(row.oldest)
    last = {"OldestSeconds": oldest, "Minutes": shown_minutes(minutes)}
    return shown | numbers | rates | last


def shown_minutes(minutes: Sequence[QueueMinute]) -> list[dict[str, int]]:
    """Return minutes as the actions give them."""
    return [{member: getattr(m, field) for member, field in _OF_MINUTE.items()} for m in minutes]
