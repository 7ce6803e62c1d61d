"""Beyond SQS: the activity of one queue by the minute, and its newest messages."""

from typing import Any

from skipmq.actions import checks
from skipmq.actions.skipmq import overview
from skipmq.broker import inspection, statistics
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call

_DEFAULT_MINUTES, _MAXIMUM_STEP = 60, 60
# Minutes of a step in which activity beyond overview.MAXIMUM_MINUTES is kept.
_MAXIMUM_MINUTES, _KEPT_STEP = 10_080, 10
# Messages of an answer, and characters of each body, so that it has at most 256 kB.
_DEFAULT_MESSAGES, _MAXIMUM_MESSAGES, _CHARACTERS = 50, 100, 2_048
_MICROSECONDS = 1_000_000
_LATEST = 1 << 60
_UNAVAILABLE = errors.ServiceUnavailable.status


async def get_queue_activity(
    node: Node, call: Call[extensions.GetQueueActivity], queue: Queue
) -> dict[str, Any]:
    """Return the counters of a queue for the last minutes, and its messages' times in queue.

    The times are omitted if `Times` is false or the queue keeps no history, or if it cannot be
    read in time; `Unread` is then the error text.
    """
    minutes = call.parameters.Minutes or _DEFAULT_MINUTES
    step = call.parameters.StepMinutes or 1
    checks.between(minutes, 1, _MAXIMUM_MINUTES, "Minutes")
    checks.between(step, 1, _MAXIMUM_STEP, "StepMinutes")
    is_long = minutes > overview.MAXIMUM_MINUTES
    if is_long and step % _KEPT_STEP:
        raise errors.invalid(
            step,
            "StepMinutes",
            f"Must be a multiple of {_KEPT_STEP} for more than {overview.MAXIMUM_MINUTES} Minutes.",
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


async def peek_newest_messages(
    node: Node, call: Call[extensions.PeekNewestMessages], queue: Queue
) -> dict[str, Any]:
    """Return the newest messages of a queue, newest first, without receiving them.

    `Since` and `Clock` are the database's time in microseconds since 1970.
    """
    since = call.parameters.Since
    limit = checks.results(call.parameters.MaxResults, _DEFAULT_MESSAGES, _MAXIMUM_MESSAGES)
    if since is not None and not 0 <= since <= _LATEST:
        raise errors.InvalidParameterValueException("Since must be a time, in microseconds.")
    # Read the clock first: messages that arrive in between are returned twice and not missed.
    clock = await node.database.clock(call.deadline)
    found = await inspection.newest(node.database, queue, since, limit, _CHARACTERS, call.deadline)
    return {"Clock": int(clock * _MICROSECONDS), "Messages": found}
