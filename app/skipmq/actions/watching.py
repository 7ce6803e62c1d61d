"""Beyond SQS: what happens in one queue, by the minute, and the messages that come to it."""

from collections.abc import Sequence
from typing import Any

from skipmq import errors
from skipmq.actions import checks, overview
from skipmq.model import NewMessage, Queue, TimeInQueue
from skipmq.node import Node
from skipmq.protocol import Call, extensions

_DEFAULT_MINUTES, _STEP_MOST = 60, 60
# Messages of a call, and characters of each body: one answer stays below a quarter of a megabyte.
_NEW, _NEW_MOST, _CHARACTERS = 50, 100, 2_048
_MICROSECONDS = 1_000_000
_LATEST = 1 << 60
_UNAVAILABLE = errors.ServiceUnavailable.status


async def get_queue_activity(
    node: Node, call: Call[extensions.GetQueueActivity], queue: Queue
) -> dict[str, Any]:
    """Give what happened in a queue in its last minutes, and how long messages were in it.

    Where the queue keeps no history the second is left out, and where the history cannot be read
    in time: `Unread` says why.
    """
    minutes = call.parameters.Minutes or _DEFAULT_MINUTES
    step = call.parameters.StepMinutes or 1
    most = overview.MINUTES_MOST
    checks.between(minutes, 1, most, "Minutes", f"Must be between 1 and {most}.")
    checks.between(step, 1, _STEP_MOST, "StepMinutes", f"Must be between 1 and {_STEP_MOST}.")
    deadline = call.deadline
    clock = await node.inspection.clock(deadline)
    found = await node.statistics.minutes([queue.id], minutes, deadline)
    mode = queue.attributes.history_mode
    result: dict[str, Any] = {
        "Clock": int(clock),
        "Minutes": overview.shown_minutes(found[queue.id]),
        "HistoryMode": mode,
    }
    if mode != "off":
        try:
            *steps, every = await node.statistics.time_in_queue(queue.id, minutes, step, deadline)
        except errors.SqsError as error:
            if error.status != _UNAVAILABLE:
                raise
            # On the day of a slow disk the minutes are what is looked for.
            return result | {"Unread": error.message}
        result["Sampled"] = every.is_sample
        result["TimeInQueue"] = _shown_time(every)
        result["Steps"] = [_shown_time(each) for each in steps]
    return result


async def peek_newest_messages(
    node: Node, call: Call[extensions.PeekNewestMessages], queue: Queue
) -> dict[str, Any]:
    """Show the messages that came to a queue last, newest first, without receiving them.

    `Since` and `Clock` are the database's time in microseconds since 1970.
    """
    since, most = call.parameters.Since, call.parameters.MaxResults
    most = _NEW if most is None else most
    checks.between(most, 1, _NEW_MOST, "MaxResults", f"Must be between 1 and {_NEW_MOST}.")
    if since is not None and not 0 <= since <= _LATEST:
        raise errors.InvalidParameterValueException("Since must be a time, in microseconds.")
    # Before the messages: what comes between the two is shown twice rather than never.
    clock = await node.inspection.clock(call.deadline)
    found = await node.inspection.newest(queue, since, most, _CHARACTERS, call.deadline)
    return {"Clock": int(clock * _MICROSECONDS), "Messages": _shown_messages(found)}


def _shown_messages(messages: Sequence[NewMessage]) -> list[dict[str, Any]]:
    return [
        {
            "MessageReference": str(each.id),
            "MessageId": each.message_id,
            "State": each.state,
            "CameAt": each.came_at,
            "Characters": each.characters,
            "Body": each.body,
        }
        | ({} if each.group_id is None else {"MessageGroupId": each.group_id})
        for each in messages
    ]


def _shown_time(time: TimeInQueue) -> dict[str, Any]:
    start = {} if time.at is None else {"Start": time.at}
    shown: dict[str, Any] = {**start, "Settled": time.settled, "Deleted": time.deleted}
    for name, values in (("Receive", time.send_to_receive), ("Delete", time.send_to_delete)):
        if values[0] is not None:
            shown[f"SendTo{name}"] = dict(zip(("P50", "P95", "P99"), values, strict=True))
    return shown
