"""Beyond SQS: peek at messages without receiving them; copy, move and delete picked messages."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from skipmq.actions import checks, paging, regions
from skipmq.actions.skipmq.consumers import receiver
from skipmq.actions.sqs import receive
from skipmq.broker import inspection
from skipmq.broker.inspection import Failure, PeekedMessage, Reference
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors, extensions, limits
from skipmq.protocol.call import Call
from skipmq.protocol.message import body_md5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Of the newest messages: those of an answer, and characters of each body, so that it has at most
# 256 kB.
_NEWEST, _MOST_NEWEST, _CHARACTERS = 50, 100, 2_048
_MICROSECONDS = 1_000_000
_LATEST = 1 << 60
STATES = ("visible", "in-flight", "delayed")
ORDERS = ("oldest", "receives", "size")
_OFFSET = re.compile("[0-9]{1,4}")
_PLACE = re.compile(r"([01]/)?[0-9]{1,12}\.[0-9]{1,6}/[0-9]{1,18}")


async def peek_messages(
    node: Node, call: Call[extensions.PeekMessages], queue: Queue
) -> dict[str, Any]:
    """List messages of a queue, of one state or of all, in pages; or those with references.

    In another order than that of the queue, its first messages are ranked: `Ranked` is their
    number.
    """
    state, order = call.parameters.State, call.parameters.Order
    references = call.parameters.MessageReferences
    if references is not None:
        found = await inspection.picked(
            node.database, node.budget, queue, picked(references), call.deadline
        )
        return {"Messages": page(node, found)}
    checks.one_of(state, STATES, "State", ", if provided")
    limit = checks.results(call.parameters.MaxResults, 10, limits.PEEKED)
    checks.one_of(order, ORDERS, "Order", ", if provided")
    if order is not None:
        return await _ranked(node, call, queue, order, limit)
    after = paging.after(call, _PLACE.fullmatch) or None
    found = await inspection.peek(
        node.database, node.budget, queue, state, limit + 1, after, call.deadline
    )
    shown = page(node, found[:limit])
    result: dict[str, Any] = {"Messages": shown}
    # The database exceeds PEEKED_BYTES by one message at most, which page cuts off.
    if len(found) > len(shown):
        result["NextToken"] = paging.token(found[len(shown) - 1].place)
    return result


async def _ranked(
    node: Node, call: Call[extensions.PeekMessages], queue: Queue, order: str, limit: int
) -> dict[str, Any]:
    """Return a page of the first messages of a queue in another order."""
    first = int(paging.after(call, _OFFSET.fullmatch) or "0")
    ranked = await inspection.ranked(
        node.database, queue, call.parameters.State, order, call.deadline
    )
    found = await inspection.picked(
        node.database, node.budget, queue, ranked[first : first + limit], call.deadline
    )
    shown = page(node, found)
    result: dict[str, Any] = {"Messages": shown, "Ranked": len(ranked)}
    # Messages that were deleted meanwhile are not in it.
    following = first + limit
    if len(shown) < len(found):
        last = found[len(shown) - 1]
        following = ranked.index(Reference(last.id, last.message_id)) + 1
    if following < len(ranked):
        result["NextToken"] = paging.token(str(following))
    return result


async def peek_newest_messages(
    node: Node, call: Call[extensions.PeekNewestMessages], queue: Queue
) -> dict[str, Any]:
    """Return the newest messages of a queue, newest first, without receiving them.

    `Since` and `Clock` are the database's time in microseconds since 1970.
    """
    since = call.parameters.Since
    limit = checks.results(call.parameters.MaxResults, _NEWEST, _MOST_NEWEST)
    if since is not None and not 0 <= since <= _LATEST:
        raise errors.InvalidParameterValueException("Since must be a time, in microseconds.")
    # Read the clock first: messages that arrive in between are returned twice and not missed.
    clock = await node.database.clock(call.deadline)
    found = await inspection.newest(node.database, queue, since, limit, _CHARACTERS, call.deadline)
    return {"Clock": int(clock * _MICROSECONDS), "Messages": found}


def page(node: Node, found: Sequence[PeekedMessage]) -> list[dict[str, Any]]:
    """Return the first messages that fit into a page as JSON, at least one."""
    size = 0
    shown: list[dict[str, Any]] = []
    for each in found:
        message = _shown(node, each)
        size += len(msgspec.json.encode(message))
        if shown and size > limits.PEEKED_BYTES:
            break
        shown.append(message)
    return shown


async def copy_messages(
    node: Node, call: Call[extensions.CopyMessages], queue: Queue
) -> dict[str, Any]:
    """Send copies of messages to a queue of the same type."""
    chosen, target = picked(call.parameters.MessageReferences), await _target(node, call, queue)
    outcomes = await inspection.copy(
        node.database, queue, chosen, target, call.identity.sender, call.deadline
    )
    node.sent(target, len(outcomes))
    return _results(call, outcomes)


async def move_messages(
    node: Node, call: Call[extensions.MoveMessages], queue: Queue
) -> dict[str, Any]:
    """Move messages that are not in flight to a queue of the same type."""
    chosen, target = picked(call.parameters.MessageReferences), await _target(node, call, queue)
    outcomes = await inspection.move(node.database, queue, chosen, target, call.deadline)
    node.sent(target, len(outcomes))
    return _results(call, outcomes)


async def delete_picked_messages(
    node: Node, call: Call[extensions.DeletePickedMessages], queue: Queue
) -> dict[str, Any]:
    """Delete messages that are not in flight, without a receive; delayed ones also by their ID."""
    references = _bounded(call.parameters.MessageReferences)
    chosen = [checks.named_message(each, "MessageReferences") for each in references]
    outcomes = await inspection.delete(node.database, queue, chosen, call.deadline)
    return _results(call, outcomes)


async def _target(node: Node, call: Call, source: Queue) -> Queue:
    """Return the destination queue of picked messages, looked up without the cache."""
    name = checks.queue_name(call.parameters.DestinationQueueUrl, call.identity)
    node.queues.forget(name.arn)
    target = await regions.find(node, call, name)
    if source.name == target.name:
        raise errors.InvalidParameterValueException(
            "The destination queue must differ from the source queue."
        )
    return target


def picked(references: Sequence[str]) -> list[Reference]:
    """Return what MessageReferences name."""
    return [checks.message_reference(each, "MessageReferences") for each in _bounded(references)]


def _bounded(references: Sequence[str]) -> Sequence[str]:
    if not 1 <= len(references) <= limits.PICKED:
        raise errors.InvalidParameterValueException(
            f"There must be 1 to {limits.PICKED} message references in the request."
        )
    return references


def _results(call: Call, outcomes: Sequence[str]) -> dict[str, Any]:
    results = [
        {"MessageReference": reference, "Outcome": outcome}
        for reference, outcome in zip(call.parameters.MessageReferences, outcomes, strict=True)
    ]
    return {"Results": results}


def _shown(node: Node, message: PeekedMessage) -> dict[str, Any]:
    values = {key: value(message) for key, value in receive.SYSTEM_ATTRIBUTES.items()}
    result: dict[str, Any] = {
        "MessageReference": str(Reference(message.id, message.message_id)),
        "MessageId": message.message_id,
        "State": message.state,
        "VisibleInSeconds": round(message.visible_in),
        "MD5OfBody": body_md5(message.body),
        "Body": message.body,
        "Attributes": {key: value for key, value in values.items() if value is not None},
    }
    if attributes := receive.stored_attributes(message):
        result["MessageAttributes"] = attributes
    if failures := failed(node, message.failures):
        result["Failures"] = failures
    return result


def failed(node: Node, failures: str | None) -> list[Failure]:
    """Return the failures of a message, as the database keeps them, in order of time."""
    kept = [] if failures is None else msgspec.json.decode(failures)
    return [
        Failure(
            (datetime.fromisoformat(each["at"]) - _EPOCH) // timedelta(microseconds=1),
            each["receive"],
            each["reason"],
            **receiver(node, each["receiver"]),
        )
        for each in kept
    ]
