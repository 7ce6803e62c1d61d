"""ReceiveMessage, and how a message is shown."""

from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any

import msgspec
import structlog

from skipmq import errors
from skipmq.actions import access, checks
from skipmq.actions.messages import shown_number
from skipmq.delivery import in_flight, receipts
from skipmq.model import (
    AttributeValue,
    PeekedMessage,
    Queue,
    QueueName,
    ReceivedMessage,
    Reception,
    Recipient,
)
from skipmq.node import Node
from skipmq.protocol import Call, digest, requests

log = structlog.get_logger()

SYSTEM_ATTRIBUTES: dict[str, Callable[[ReceivedMessage | PeekedMessage], str | None]] = {
    "SenderId": lambda m: m.sender,
    "SentTimestamp": lambda m: str(m.sent_at // 1000),
    "ApproximateReceiveCount": lambda m: str(m.approximate_receive_count),
    "ApproximateFirstReceiveTimestamp": lambda m: (
        None if m.first_received_at is None else str(m.first_received_at // 1000)
    ),
    "MessageGroupId": lambda m: m.group_id,
    "AWSTraceHeader": lambda m: m.trace_header,
    "DeadLetterQueueSourceArn": lambda m: m.dead_letter_source,
    # Standard messages do not have these.
    "SequenceNumber": lambda m: (
        None if m.sequence_number is None else shown_number(m.sequence_number)
    ),
    "MessageDeduplicationId": lambda m: m.deduplication_id,
}
_stored_attributes = msgspec.json.Decoder(dict[str, AttributeValue]).decode


async def receive_message(
    node: Node, call: Call[requests.ReceiveMessage], queue: Queue
) -> dict[str, Any]:
    """Claim messages, waiting for the first if the call or the queue says so."""
    wanted, name = call.parameters, queue.name
    checks.receive_limit(wanted.MaxNumberOfMessages)
    checks.wait_time(wanted.WaitTimeSeconds)
    checks.visibility_timeout(wanted.VisibilityTimeout)
    shown = _system_names(wanted)
    limit = wanted.MaxNumberOfMessages or 1
    attempt = wanted.ReceiveRequestAttemptId
    if queue.fifo:
        checks.identifier(attempt, "ReceiveRequestAttemptId")
    else:
        checks.fifo_only(attempt, "ReceiveRequestAttemptId")
    wait = wanted.WaitTimeSeconds
    if wait is None:
        wait = queue.number("ReceiveMessageWaitTimeSeconds")

    recipient = Recipient()

    async def poll(queue: Queue) -> Reception:
        deadline = call.deadline
        keys = _keys_version(node)
        if not await node.in_flight.allows(queue, deadline):
            if not queue.fifo and wait == 0:
                raise errors.OverLimit("The maximum number of messages in flight is reached.")
            return Reception([], in_flight.PAUSE)
        reception = await node.messages.receive(
            queue,
            limit,
            wanted.VisibilityTimeout,
            deadline,
            attempt=attempt,
            recipient=recipient,
        )
        if reception.messages and (recipient.left or _keys_version(node) != keys):
            reception = await _checked(node, call, queue, reception, recipient, keys)
        node.in_flight.received(queue, len(reception.messages))
        return reception

    unwatch = call.request.watch_client and call.request.watch_client(recipient.leave)
    try:
        if wait:
            reception = await _awaited(node, call, name, poll, wait, recipient)
        else:
            reception = await poll(queue)
    finally:
        if unwatch is not None:
            unwatch()
    node.activity.note(queue.id, len(reception.messages))
    if node.tracing is not None:
        node.tracing.link(message.trace_header for message in reception.messages)
    messages = [_shown(node, name, m, shown, wanted) for m in reception.messages]
    return {"Messages": messages} if messages else {}


def _keys_version(node: Node) -> int:
    return 0 if node.keys is None else node.keys.version


async def _checked(  # noqa: PLR0913, PLR0917 - private.
    node: Node, call: Call, queue: Queue, reception: Reception, recipient: Recipient, keys: int
) -> Reception:
    """Return what was claimed, if its caller may have it still; otherwise give it back.

    `keys` is the version of the keys before the claim, which may have waited for the database.
    Raises what access.check_again raises.
    """
    refusal: errors.SqsError | None = None
    if _keys_version(node) != keys:
        try:
            await access.check_again(node, call)
        except errors.SqsError as error:
            refusal = error
    if refusal is None and not recipient.left:
        return reception
    await node.messages.give_back(queue, reception.messages, call.deadline)
    node.sent(queue.name, len(reception.messages))
    if refusal is not None:
        raise refusal
    return Reception([])


async def _awaited(  # noqa: PLR0913, PLR0917 - private.
    node: Node,
    call: Call,
    name: QueueName,
    poll: Callable[[Queue], Awaitable[Reception]],
    wait: int,
    recipient: Recipient,
) -> Reception:
    """Poll until there is something, for up to `wait` seconds, or the client is gone.

    Where too many wait already it polls once: those who wait for nothing must not keep others from
    what there is.
    """
    ends = monotonic() + node.waiters.seconds_for(wait)
    with node.waiters.register(name.arn, call.identity.key_id or "") as waiter:
        recipient.when_left = waiter.leave
        if recipient.left:
            waiter.leave()
        node.notifier.announce(name.arn)
        reception = Reception([])
        # An attempt may be given what it was given before.
        polls = not waiter.need_not_poll() or call.parameters.ReceiveRequestAttemptId is not None
        while True:
            if polls:
                waiter.poll_begins()
                reception = await node.queues.on(name, call.deadline, poll)
                if reception.messages:
                    return reception
                if not recipient.left:
                    waiter.poll_found_nothing(reception.next_visible_in)
            if not waiter.has_place:
                raise errors.Overloaded("As many receivers wait as the node can take; try again.")
            began = monotonic()
            is_due = await waiter.wait(ends)
            call.waited += monotonic() - began
            if not is_due:
                return reception
            polls = True
            call.deadline = node.deadline()
            # The key may have been disabled meanwhile.
            await access.check_again(node, call)


def _system_names(wanted: requests.ReceiveMessage) -> list[str]:
    names = wanted.MessageSystemAttributeNames or wanted.AttributeNames
    if not names:
        return []
    for name in names:
        if name not in SYSTEM_ATTRIBUTES and name not in ("All", "SqsManagedSseEnabled"):
            raise checks.unknown_attribute(name)
    return [name for name in SYSTEM_ATTRIBUTES if "All" in names or name in names]


def _shown(
    node: Node,
    name: QueueName,
    message: ReceivedMessage,
    system: list[str],
    wanted: requests.ReceiveMessage,
) -> dict[str, Any]:
    receipt = receipts.Receipt(message.id, message.receive_count, message.received_at)
    result: dict[str, Any] = {
        "MessageId": message.message_id,
        "ReceiptHandle": receipts.encode(receipt, node.receipt_keys.current, name.arn),
        "MD5OfBody": digest.of_body(message.body),
        "Body": message.body,
    }
    if system:
        values = {attribute: SYSTEM_ATTRIBUTES[attribute](message) for attribute in system}
        if present := {key: value for key, value in values.items() if value is not None}:
            result["Attributes"] = present
    if message.attributes and (patterns := wanted.MessageAttributeNames):
        stored = stored_attributes(message)
        chosen = {key: value for key, value in stored.items() if _is_wanted(key, patterns)}
        if chosen:
            result["MessageAttributes"] = chosen
            result["MD5OfMessageAttributes"] = digest.of_attributes(chosen)
    return result


def stored_attributes(message: ReceivedMessage | PeekedMessage) -> dict[str, AttributeValue]:
    """Return the attributes that the user gave a message."""
    try:
        return _stored_attributes(message.attributes or "{}")
    except msgspec.MsgspecError:
        # Written by SQL past the checks: the message must not keep others from being received.
        log.warning("message attributes cannot be read", message_id=message.message_id)
        return {}


def _is_wanted(attribute: str, patterns: Sequence[str]) -> bool:
    return any(
        pattern in ("All", ".*", "*", attribute)
        or (pattern.endswith(".*") and attribute.startswith(pattern[:-2]))
        for pattern in patterns
    )
