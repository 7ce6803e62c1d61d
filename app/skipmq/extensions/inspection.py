"""Beyond SQS: peek at messages without receiving them; copy, move and delete picked messages."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from skipmq import errors, limits
from skipmq.actions import checks, paging, receive
from skipmq.model import PeekedMessage, Queue
from skipmq.node import Node
from skipmq.protocol import Call, digest, extensions

_STATES = ("visible", "in-flight", "delayed")
_PLACE = re.compile(r"([01]/)?[0-9]{1,12}\.[0-9]{1,6}/[0-9]{1,18}")


async def peek_messages(
    node: Node, call: Call[extensions.PeekMessages], queue: Queue
) -> dict[str, Any]:
    """List messages of a queue, of one state or of all, in pages."""
    state, limit = call.parameters.State, call.parameters.MaxResults
    limit = 10 if limit is None else limit
    if state is not None and state not in _STATES:
        raise checks.invalid(state, "State", f"Must be one of {', '.join(_STATES)}, if provided.")
    checks.between(limit, 1, limits.PEEKED, "MaxResults", f"Must be between 1 and {limits.PEEKED}.")
    after = paging.after(call) or None
    if after is not None and not _PLACE.fullmatch(after):
        raise errors.InvalidParameterValueException("Invalid or expired next token.")
    found = await node.inspection.peek(queue, state, limit + 1, after, call.deadline)
    shown = _page([_shown(message) for message in found[:limit]])
    result: dict[str, Any] = {"Messages": shown}
    # The database exceeds PEEKED_BYTES by one message at most, which _page cuts off.
    if len(found) > len(shown):
        result["NextToken"] = paging.token(found[len(shown) - 1].place)
    return result


def _page(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first messages that fit into a page as JSON, at least one."""
    size = 0
    for number, message in enumerate(messages):
        size += len(msgspec.json.encode(message))
        if number and size > limits.PEEKED_BYTES:
            return messages[:number]
    return messages


async def copy_messages(
    node: Node, call: Call[extensions.CopyMessages], queue: Queue
) -> dict[str, Any]:
    """Send copies of messages to a queue of the same type."""
    ids, target = _picked(call), await _target(node, call, queue)
    outcomes = await node.inspection.copy(queue, ids, target, call.identity.sender, call.deadline)
    node.sent(target.name, len(outcomes))
    return _results(call, outcomes)


async def move_messages(
    node: Node, call: Call[extensions.MoveMessages], queue: Queue
) -> dict[str, Any]:
    """Move messages that are not in flight to a queue of the same type."""
    ids, target = _picked(call), await _target(node, call, queue)
    outcomes = await node.inspection.move(queue, ids, target, call.deadline)
    node.sent(target.name, len(outcomes))
    return _results(call, outcomes)


async def delete_picked_messages(
    node: Node, call: Call[extensions.DeletePickedMessages], queue: Queue
) -> dict[str, Any]:
    """Delete messages that are not in flight, without a receive."""
    outcomes = await node.inspection.delete(queue, _picked(call), call.deadline)
    return _results(call, outcomes)


async def _target(node: Node, call: Call, source: Queue) -> Queue:
    """Return the destination queue of picked messages, looked up without the cache."""
    name = checks.queue_name(call.parameters.DestinationQueueUrl, call.identity)
    if source.name == name:
        raise errors.InvalidParameterValueException(
            "The destination queue must differ from the source queue."
        )
    node.queues.forget(name.arn)
    return await node.queues.find(name, call.deadline)


def _picked(call: Call) -> list[int]:
    """Return the ids of the messages in MessageReferences."""
    references: Sequence[str] = call.parameters.MessageReferences
    if not 1 <= len(references) <= limits.PICKED:
        raise errors.InvalidParameterValueException(
            f"There must be 1 to {limits.PICKED} message references in the request."
        )
    return [checks.message_reference(each, "MessageReferences") for each in references]


def _results(call: Call, outcomes: Sequence[str]) -> dict[str, Any]:
    results = [
        {"MessageReference": reference, "Outcome": outcome}
        for reference, outcome in zip(call.parameters.MessageReferences, outcomes, strict=True)
    ]
    return {"Results": results}


def _shown(message: PeekedMessage) -> dict[str, Any]:
    values = {key: value(message) for key, value in receive.SYSTEM_ATTRIBUTES.items()}
    result: dict[str, Any] = {
        "MessageReference": str(message.id),
        "MessageId": message.message_id,
        "State": message.state,
        "VisibleInSeconds": round(message.visible_in),
        "MD5OfBody": digest.body_md5(message.body),
        "Body": message.body,
        "Attributes": {key: value for key, value in values.items() if value is not None},
    }
    if attributes := receive.stored_attributes(message):
        result["MessageAttributes"] = attributes
    return result
