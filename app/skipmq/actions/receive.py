"""ReceiveMessage, and how a message is shown."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog

from skipmq import errors
from skipmq.actions import access, checks
from skipmq.actions.messages import shown_number
from skipmq.delivery import in_flight, receipts
from skipmq.delivery.waiters import poll_until
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
    wanted = call.parameters
    checks.receive_limit(wanted.MaxNumberOfMessages)
    checks.wait_time(wanted.WaitTimeSeconds)
    checks.visibility_timeout(wanted.VisibilityTimeout)
    shown = _system_names(wanted)
    attempt = wanted.ReceiveRequestAttemptId
    if queue.fifo:
        checks.identifier(attempt, "ReceiveRequestAttemptId")
    else:
        checks.fifo_only(attempt, "ReceiveRequestAttemptId")
    receiver = _Receiver(node, call, queue)
    watch = call.request.watch_client
    unwatch = None if watch is None else watch(receiver.recipient.disconnect)
    try:
        reception = await receiver.receive(queue)
    finally:
        call.waited = receiver.recipient.waited
        if unwatch is not None:
            unwatch()
    node.activity.note(queue.id, len(reception.messages))
    if node.tracing is not None:
        node.tracing.link(message.trace_header for message in reception.messages)
    messages = [_shown(node, queue.name, m, shown, wanted) for m in reception.messages]
    return {"Messages": messages} if messages else {}


class _Receiver:
    """The claims of one ReceiveMessage."""

    def __init__(self, node: Node, call: Call[requests.ReceiveMessage], queue: Queue) -> None:
        self._node, self._call, self._name = node, call, queue.name
        self.recipient = Recipient()
        wanted = call.parameters.WaitTimeSeconds
        self._wait = (
            queue.attributes.receive_message_wait_time_seconds if wanted is None else wanted
        )

    async def receive(self, queue: Queue) -> Reception:
        """Claim messages; wait for the first where that is wanted."""
        if not self._wait:
            return await self._claim(queue)
        self._node.notifier.announce(self._name.arn)
        return await poll_until(
            self._node.waiters,
            self._name.arn,
            self._call.identity.key_id or "",
            self._wait,
            self.recipient,
            self._poll,
            self._resume,
            # An attempt may be given what it was given before.
            claims_first=self._call.parameters.ReceiveRequestAttemptId is not None,
        )

    async def _poll(self) -> Reception:
        return await self._node.queues.on(self._name, self._call.deadline, self._claim)

    async def _resume(self) -> None:
        self._call.deadline = self._node.deadline()
        # The key may have been disabled meanwhile.
        await access.check_again(self._node, self._call)

    async def _claim(self, queue: Queue) -> Reception:
        node, wanted, deadline = self._node, self._call.parameters, self._call.deadline
        keys = _keys_version(node)
        if not await node.in_flight.allows(queue, deadline):
            if not queue.fifo and not self._wait:
                raise errors.OverLimit("The maximum number of messages in flight is reached.")
            return Reception([], in_flight.PAUSE)
        limit, timeout = wanted.MaxNumberOfMessages or 1, wanted.VisibilityTimeout
        attempt = wanted.ReceiveRequestAttemptId
        if attempt is None or self.recipient.is_disconnected:
            reception = await node.messages(queue).receive(
                queue, limit, timeout, deadline, self.recipient
            )
        else:
            reception = await node.fifo.receive_attempt(queue, attempt, limit, timeout, deadline)
        if reception.messages and (self.recipient.is_disconnected or _keys_version(node) != keys):
            reception = await self._checked(queue, reception, keys)
        node.in_flight.received(queue, len(reception.messages))
        return reception

    async def _checked(self, queue: Queue, reception: Reception, keys: int) -> Reception:
        """Return what was claimed, if its caller may have it still; otherwise give it back.

        `keys` is the version of the keys before the claim, which may have waited for the database.
        Raises what access.check_again raises.
        """
        node, call = self._node, self._call
        refusal: errors.SqsError | None = None
        if _keys_version(node) != keys:
            try:
                await access.check_again(node, call)
            except errors.SqsError as error:
                refusal = error
        if refusal is None and not self.recipient.is_disconnected:
            return reception
        await node.messages(queue).give_back(queue, reception.messages, call.deadline)
        node.sent(queue.name, len(reception.messages))
        if refusal is not None:
            raise refusal
        return Reception([])


def _keys_version(node: Node) -> int:
    return 0 if node.keys is None else node.keys.version


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
