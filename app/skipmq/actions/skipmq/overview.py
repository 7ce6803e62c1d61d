"""Beyond SQS: the queues of an account with their statistics, and the activity of one."""

from typing import Any

from msgspec import structs

from skipmq.actions import access, checks
from skipmq.broker import statistics
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.broker.statistics import QueueMinute, QueueStatistics
from skipmq.protocol import errors, extensions, limits
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

MAXIMUM_MINUTES = 360
_DEFAULT_MINUTES, _MAXIMUM_STEP = 60, 60
# Minutes of a step in which activity of a queue beyond MAXIMUM_MINUTES is kept.
_KEPT_MINUTES, _KEPT_STEP = 10_080, 10
_UNAVAILABLE = errors.ServiceUnavailable.status


async def list_queue_statistics(
    node: Node, call: Call[extensions.ListQueueStatistics]
) -> dict[str, Any]:
    """List queues whose names contain a text, with their statistics, in pages.

    A queue whose attributes the caller may not read has no numbers. An operator gets whole records,
    and the sum of the others that match.
    """
    parameters = call.parameters
    order = parameters.Order or "name"
    checks.one_of(order, statistics.ORDERS, "Order", ", if provided")
    checks.one_of(parameters.Filter, statistics.FILTERS, "Filter", ", if provided")
    if "\0" in (parameters.Tag or ""):
        raise errors.InvalidParameterValueException("A text cannot contain NUL.")
    identity = call.identity
    most = limits.LIST_RESULTS if identity.is_operator else limits.COUNTED_QUEUES
    search, offset, limit = checks.page(parameters, most)
    checks.between(parameters.Minutes, 1, MAXIMUM_MINUTES, "Minutes")
    account: str | None = identity.account
    region: str | None = identity.region
    if identity.is_operator:
        account, region = account or None, region or None
    rows, others = await statistics.queues(
        node.database,
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
        minutes = await statistics.minutes(node.database, ids, parameters.Minutes, call.deadline)
        clock = {"Clock": int(await node.database.clock(call.deadline))}
    matches = len(rows) + others.queues
    if identity.is_operator:
        return {**clock, "Queues": rows, "Matches": matches, "Others": others}
    queues = [_shown(node, call, row, minutes.get(row.id or 0, [])) for row in rows]
    return {**clock, "Queues": queues, "Matches": matches}


def _shown(
    node: Node, call: Call, row: QueueStatistics, minutes: list[QueueMinute]
) -> QueueStatistics | dict[str, Any]:
    """Return what the caller may see of a queue."""
    assert row.queue is not None
    name = QueueName(call.identity.account, call.identity.region, row.queue)
    if not access.allows(node, call, "GetQueueAttributes", name, row.policy or ""):
        return {
            "QueueName": row.queue,
            "FifoQueue": row.fifo,
            "DeadLetterQueue": row.dead_letters,
        }
    return structs.replace(
        row,
        sent_per_minute=round(row.sent_per_minute or 0),
        received_per_minute=round(row.received_per_minute or 0),
        deleted_per_minute=round(row.deleted_per_minute or 0),
        oldest=None if row.oldest is None else int(row.oldest),
        expires_in=None if row.expires_in is None else int(row.expires_in),
        paused_for=None if row.paused_for is None else int(row.paused_for),
        minutes=minutes,
        account=None,
        region=None,
        id=None,
        messages=None,
        policy=None,
        repeated=None,
    )


async def get_queue_activity(
    node: Node, call: Call[extensions.GetQueueActivity], queue: Queue
) -> dict[str, Any]:
    """Return the counters of a queue for the last minutes, and its messages' times in queue.

    The times are omitted if `Times` is false or the queue keeps no history, or if it cannot be
    read in time; `Unread` is then the error text.
    """
    minutes = call.parameters.Minutes or _DEFAULT_MINUTES
    step = call.parameters.StepMinutes or 1
    checks.between(minutes, 1, _KEPT_MINUTES, "Minutes")
    checks.between(step, 1, _MAXIMUM_STEP, "StepMinutes")
    is_long = minutes > MAXIMUM_MINUTES
    if is_long and step % _KEPT_STEP:
        raise errors.invalid(
            step,
            "StepMinutes",
            f"Must be a multiple of {_KEPT_STEP} for more than {MAXIMUM_MINUTES} Minutes.",
        )
    deadline = call.deadline
    clock = await node.database.clock(deadline)
    found = await statistics.minutes(
        node.database, [queue.id], minutes, deadline, step=step if is_long else 1
    )
    oldest = await statistics.oldest(node.database, queue, deadline)
    mode = queue.attributes.history_mode
    result: dict[str, Any] = {
        "Clock": int(clock),
        "OldestSeconds": None if oldest is None else int(oldest),
        "Minutes": found[queue.id],
        "HistoryMode": mode,
    }
    if mode != "off" and call.parameters.Times is not False:
        try:
            steps, every, is_sample = await statistics.time_in_queue(
                node.database, queue.id, minutes, step, deadline
            )
        except errors.SqsError as error:
            if error.status != _UNAVAILABLE:
                raise
            # Return the minutes at least: they are needed most when the disk is slow.
            return result | {"Unread": error.message}
        result |= {"Sampled": is_sample, "TimeInQueue": every, "Steps": steps}
    return result
