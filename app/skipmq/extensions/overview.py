"""Beyond SQS: the queues of an account with their statistics."""

from collections.abc import Sequence
from typing import Any

from skipmq import errors, limits
from skipmq.actions import access, checks
from skipmq.model import QueueMinute, QueueName, QueueStatistics
from skipmq.node import Node
from skipmq.protocol import Call, extensions
from skipmq.store import statistics

MAXIMUM_MINUTES = 360
_NUMBERS = {
    "Visible": "visible",
    "InFlight": "in_flight",
    "Delayed": "delayed",
    "Sent": "sent",
    "BytesSent": "bytes_sent",
    "Received": "received",
    "EmptyReceives": "empty_receives",
    "Deleted": "deleted",
    "Expired": "expired",
    "DeadLettered": "dead_lettered",
    "Redriven": "redriven",
    "MovedIn": "moved_in",
}
_RATES = {
    "SentPerMinute": "send_rate",
    "ReceivedPerMinute": "receive_rate",
    "DeletedPerMinute": "delete_rate",
}
_MINUTE_FIELDS = {
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
    """List queues whose names contain a text, with their statistics, in pages.

    A queue whose attributes the caller may not read has no numbers.
    """
    parameters = call.parameters
    order = parameters.Order or "name"
    if order not in statistics.ORDERS:
        raise checks.invalid(
            order, "Order", f"Must be one of {', '.join(statistics.ORDERS)}, if provided."
        )
    if parameters.Filter is not None and parameters.Filter not in statistics.FILTERS:
        raise checks.invalid(
            parameters.Filter,
            "Filter",
            f"Must be one of {', '.join(statistics.FILTERS)}, if provided.",
        )
    if "\0" in (parameters.Tag or ""):
        raise errors.InvalidParameterValueException("A text cannot contain NUL.")
    search, offset, limit = checks.page(parameters, limits.COUNTED_QUEUES)
    reason = f"Must be between 1 and {MAXIMUM_MINUTES}."
    checks.between(parameters.Minutes, 1, MAXIMUM_MINUTES, "Minutes", reason)
    account, region = call.identity.account, call.identity.region
    rows, others = await node.statistics.queues(
        limit,
        account=account,
        region=region,
        search=search,
        order=order,
        descending=parameters.Descending,
        offset=offset,
        only=parameters.Filter,
        tag=parameters.Tag or None,
        deadline=call.deadline,
    )
    minutes: dict[int, list[QueueMinute]] = {}
    clock = {}
    if parameters.Minutes:
        ids = [row.id for row in rows if row.id is not None]
        minutes = await node.statistics.minutes(ids, parameters.Minutes, call.deadline)
        clock = {"Clock": int(await node.inspection.clock(call.deadline))}
    queues = [_shown(node, call, row, minutes.get(row.id or 0, [])) for row in rows]
    return {**clock, "Queues": queues, "Matches": len(rows) + others.queues}


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
    trouble = {} if row.trouble is None else {"Trouble": row.trouble}
    return shown | numbers | rates | last | trouble


def shown_minutes(minutes: Sequence[QueueMinute]) -> list[dict[str, int]]:
    """Return minutes in the form of the actions' answers."""
    fields = _MINUTE_FIELDS.items()
    return [{member: getattr(minute, field) for member, field in fields} for minute in minutes]
