"""ReceiveMessage, and how a message is shown."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import msgspec
import structlog

from skipmq import digest, errors, receipts
from skipmq.actions import checks
from skipmq.actions.messages import Entry, shown_number
from skipmq.model import PeekedMessage, Queue, QueueName, ReceivedMessage, Reception
from skipmq.node import Node
from skipmq.protocol import Call
from skipmq.store import in_flight

log = structlog.get_logger()

SYSTEM_ATTRIBUTES: dict[str, Callable[[ReceivedMessage | PeekedMessage], str | None]] = {
    "SenderId": lambda m: m.sender,
    "SentTimestamp": lambda m: str(m.sent_at),
    "ApproximateReceiveCount": lambda m: str(m.approximate_receive_count),
    "ApproximateFirstReceiveTimestamp": lambda m: (
        None if m.first_received_at is None else str(m.first_received_at)
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


def receive_message(node: Node, call: Call) -> dict[str, Any]:
    """Claim messages, waiting for the first if the call or the queue says so."""
    wanted = call.parameters
    name = checks.queue_name(wanted["QueueUrl"], call.identity)
    checks.receive_limit(wanted.get("MaxNumberOfMessages"))
    checks.wait_time(wanted.get("WaitTimeSeconds"))
    checks.visibility_timeout(wanted.get("VisibilityTimeout"))
    shown = _system_names(wanted)
    limit = wanted.get("MaxNumberOfMessages", 1)
    attempt = wanted.get("ReceiveRequestAttemptId")
    queue = node.queue(name)
    if queue.fifo:
        checks.identifier(attempt, "ReceiveRequestAttemptId")
    else:
        checks.fifo_only(attempt, "ReceiveRequestAttemptId")
    wait = wanted.get("WaitTimeSeconds", queue.number("ReceiveMessageWaitTimeSeconds"))

    def look(queue: Queue) -> Reception:
        if not node.in_flight.allows(queue):
            if not queue.fifo and wait == 0:
                raise errors.OverLimit("The maximum number of messages in flight is reached.")
            return Reception([], in_flight.PAUSE)
        reception = node.messages.receive(queue, limit, wanted.get("VisibilityTimeout"), attempt)
        node.in_flight.received(queue, len(reception.messages))
        return reception

    reception = _awaited(node, name, look, wait) if wait else node.on_queue(name, look)
    messages = [_shown(node, name, m, shown, wanted) for m in reception.messages]
    return {"Messages": messages} if messages else {}


def _awaited(
    node: Node, name: QueueName, look: Callable[[Queue], Reception], wait: int
) -> Reception:
    """Look until there is something, for up to `wait` seconds.

    Where too many wait already it looks once: those who wait for nothing must not keep others from
    what there is.
    """
    deadline = monotonic() + wait
    with node.admission.parked() as may_wait, node.waiters.register(name.arn) as waiter:
        node.notifier.announce(name.arn)
        reception = node.on_queue(name, look)
        if not (reception.messages or may_wait):
            raise node.admission.turn_away()
        while not reception.messages and waiter.wait(deadline, reception.next_visible_in):
            reception = node.on_queue(name, look)
    return reception


def _system_names(wanted: Mapping[str, Any]) -> list[str]:
    names = wanted.get("MessageSystemAttributeNames") or wanted.get("AttributeNames") or []
    for name in names:
        if name not in SYSTEM_ATTRIBUTES and name not in ("All", "SqsManagedSseEnabled"):
            raise errors.InvalidAttributeName(f"Unknown Attribute {name}.")
    return [name for name in SYSTEM_ATTRIBUTES if "All" in names or name in names]


def _shown(
    node: Node, name: QueueName, message: ReceivedMessage, system: list[str], wanted: Entry
) -> dict[str, Any]:
    receipt = receipts.Receipt(message.id, message.receive_count, message.received_at)
    result: dict[str, Any] = {
        "MessageId": message.message_id,
        "ReceiptHandle": receipts.encode(receipt, node.receipt_key, name.arn),
        "MD5OfBody": digest.of_body(message.body),
        "Body": message.body,
    }
    values = {attribute: SYSTEM_ATTRIBUTES[attribute](message) for attribute in system}
    if present := {key: value for key, value in values.items() if value is not None}:
        result["Attributes"] = present
    if message.attributes and (patterns := wanted.get("MessageAttributeNames")):
        stored = stored_attributes(message)
        chosen = {key: value.shown() for key, value in stored.items() if _is_wanted(key, patterns)}
        if chosen:
            result["MessageAttributes"] = chosen
            result["MD5OfMessageAttributes"] = digest.of_attributes(chosen)
    return result


def stored_attributes(
    message: ReceivedMessage | PeekedMessage,
) -> "dict[str, _StoredAttribute]":
    """Return the attributes that the user gave a message."""
    try:
        return msgspec.json.decode(message.attributes or "{}", type=dict[str, _StoredAttribute])
    except msgspec.MsgspecError:
        # Written by SQL past the checks: the message must not keep others from being received.
        log.warning("message attributes cannot be read", message_id=message.message_id)
        return {}


class _StoredAttribute(msgspec.Struct):
    DataType: str
    StringValue: str | None = None
    BinaryValue: bytes | None = None

    def shown(self) -> dict[str, Any]:
        value = (
            {"BinaryValue": self.BinaryValue}
            if self.BinaryValue is not None
            else {"StringValue": self.StringValue}
        )
        return {**value, "DataType": self.DataType}


def _is_wanted(attribute: str, patterns: Sequence[str]) -> bool:
    return any(
        pattern in ("All", ".*", "*", attribute)
        or (pattern.endswith(".*") and attribute.startswith(pattern[:-1]))
        for pattern in patterns
    )
