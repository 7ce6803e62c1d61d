"""Beyond SQS: the groups of FIFO queues, messages in flight that are released, and pauses."""

import re
from typing import Any

from msgspec import structs

from skipmq.actions import checks, paging
from skipmq.actions.skipmq.consumers import receiver
from skipmq.broker import groups
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors, extensions, limits
from skipmq.protocol.call import Call

_PAGE = 50
_PLACE = re.compile(r"[0-9]{1,12}\.[0-9]{1,6}/-?[0-9]{1,19}")
# The latest time of a pause: the year 9999.
_LATEST = 253_370_764_800


async def list_message_groups(
    node: Node, call: Call[extensions.ListMessageGroups], queue: Queue
) -> dict[str, Any]:
    """List the groups of a FIFO queue in pages, those that stay in flight longest first."""
    parameters = call.parameters
    if not queue.fifo:
        raise errors.InvalidParameterValueException("The queue is not a FIFO queue.")
    limit = checks.results(parameters.MaxResults, _PAGE, limits.PEEKED)
    after = paging.after(call, _PLACE.fullmatch) or None
    rows = await groups.listed(
        node.database, queue, limit + 1, after, parameters.MessageGroupId, call.deadline
    )
    result: dict[str, Any] = {
        "Groups": [
            structs.replace(row, place="", receiver=None, **receiver(node, row.receiver))
            for row in rows[:limit]
        ]
    }
    if len(rows) > limit:
        result["NextToken"] = paging.token(rows[limit - 1].place)
    return result


async def release_messages(
    node: Node, call: Call[extensions.ReleaseMessages], queue: Queue
) -> dict[str, Any]:
    """Make messages in flight visible now; those of a FIFO queue with all of their groups.

    With `VisibleInSeconds` those of a standard queue then, whatever their state is.
    """
    parameters = call.parameters
    references, names = parameters.MessageReferences or [], parameters.MessageGroupIds or []
    if not 1 <= len(references) + len(names) <= limits.PICKED:
        raise errors.InvalidParameterValueException(
            f"There must be 1 to {limits.PICKED} messages and groups in the request."
        )
    if names and not queue.fifo:
        raise errors.InvalidParameterValueException("The queue is not a FIFO queue.")
    chosen = [checks.named_message(each, "MessageReferences") for each in references]
    seconds = parameters.VisibleInSeconds
    if seconds is not None:
        if queue.fifo:
            raise errors.InvalidParameterValueException(
                "Messages of a FIFO queue cannot be rescheduled."
            )
        longest = max(limits.VISIBILITY_TIMEOUT, queue.attributes.maximum_delay_seconds)
        checks.between(seconds, 0, longest, "VisibleInSeconds")
        outcomes = await groups.reschedule(node.database, queue, chosen, seconds, call.deadline)
        changed = outcomes.count("rescheduled")
        if changed and not seconds:
            node.sent(queue, changed)
        return {
            "Released": 0 if seconds else changed,
            "Results": [
                {"MessageReference": reference, "Outcome": outcome}
                for reference, outcome in zip(references, outcomes, strict=True)
            ],
        }
    released = await groups.release(node.database, queue, chosen, names, call.deadline)
    count = sum(messages for _, messages in released)
    if count:
        node.sent(queue, count)
    what = [
        *({"MessageReference": each} for each in references),
        *({"MessageGroupId": each} for each in names),
    ]
    return {
        "Released": count,
        "Results": [
            each | {"Outcome": outcome} for each, (outcome, _) in zip(what, released, strict=True)
        ],
    }


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
