"""Beyond SQS: pause and resume the receives of a queue or of one of its groups."""

from typing import Any

from skipmq.actions import checks, paging
from skipmq.broker import groups
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import extensions, limits
from skipmq.protocol.call import Call

# The latest time of a pause: the year 9999.
_LATEST = 253_370_764_800


async def pause_queue(node: Node, call: Call[extensions.PauseQueue], queue: Queue) -> None:
    """Pause the receives of a queue, or with Paused of false resume them."""
    paused = "false" if call.parameters.Paused is False else "true"
    changes = {"Paused": paused, "PausedBy": call.identity.shown_name}
    await node.queues.set_attributes(queue, changes, call.deadline)


async def pause_message_group(
    node: Node, call: Call[extensions.PauseMessageGroup], queue: Queue
) -> None:
    """Have receives leave out the messages of a group, until a time if one is given."""
    group, until = call.parameters.MessageGroupId, call.parameters.PausedUntil
    checks.identifier(group, "MessageGroupId")
    checks.between(until or 1, 1, _LATEST, "PausedUntil", "Must be seconds since 1970.")
    by = call.identity.shown_name
    await groups.pause(node.database, queue, group, until, by, call.deadline)
    node.queues.forget(queue.name.arn)
    node.notifier.changed(queue.name.arn, queue.id)


async def resume_message_group(
    node: Node, call: Call[extensions.ResumeMessageGroup], queue: Queue
) -> dict[str, Any]:
    """Have receives give the messages of a paused group again."""
    group = call.parameters.MessageGroupId
    resumed = await groups.resume(node.database, queue, group, call.deadline)
    if resumed:
        node.sent(queue, limits.RECEIVE_MESSAGES)
    return {"Resumed": resumed}


async def list_paused_message_groups(
    node: Node, call: Call[extensions.ListPausedMessageGroups], queue: Queue
) -> dict[str, Any]:
    """List the paused groups of a queue in pages, by name."""
    limit = checks.results(call.parameters.MaxResults, limits.PEEKED, limits.PEEKED)
    after, group = paging.after(call) or "", call.parameters.MessageGroupId
    rows = await groups.paused(node.database, queue, limit + 1, after, group, call.deadline)
    result: dict[str, Any] = {"Groups": rows[:limit]}
    if len(rows) > limit:
        result["NextToken"] = paging.token(rows[limit - 1].message_group_id)
    return result
