"""Send, receive, delete and hide messages. A single send, delete or change is a batch of one."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any
from uuid import uuid4

import msgspec
import structlog

from skipmq import digest, errors, limits, receipts
from skipmq.actions import checks
from skipmq.model import OutgoingMessage, Queue, QueueName, ReceivedMessage, Reception
from skipmq.node import Node
from skipmq.protocol import Call

log = structlog.get_logger()

Entry = Mapping[str, Any]

_SYSTEM_ATTRIBUTES: dict[str, Callable[[ReceivedMessage], str | None]] = {
    "SenderId": lambda m: m.sender,
    "SentTimestamp": lambda m: str(m.sent_at),
    "ApproximateReceiveCount": lambda m: str(m.approximate_receive_count),
    "ApproximateFirstReceiveTimestamp": lambda m: str(m.first_received_at),
    "MessageGroupId": lambda m: m.group_id,
    "AWSTraceHeader": lambda m: m.trace_header,
    "DeadLetterQueueSourceArn": lambda m: m.dead_letter_source,
    # These belong to FIFO queues: known, and absent from standard messages.
    "SequenceNumber": lambda _: None,
    "MessageDeduplicationId": lambda _: None,
}


def send_message(node: Node, call: Call) -> dict[str, Any]:
    """Store a message."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    most = node.queue(name).number("MaximumMessageSize")
    message, result = outgoing(call, call.parameters)
    if size(call.parameters) > most:
        raise errors.InvalidParameterValueException(
            "One or more parameters are invalid. Reason: Message must be shorter than"
            f" {most} bytes."
        )
    store(node, call, name, [message])
    return result


def receive_message(node: Node, call: Call) -> dict[str, Any]:
    """Claim messages, waiting for the first if the call or the queue says so."""
    wanted = call.parameters
    name = checks.queue_name(wanted["QueueUrl"], call.identity)
    checks.receive_limit(wanted.get("MaxNumberOfMessages"))
    checks.wait_time(wanted.get("WaitTimeSeconds"))
    checks.visibility_timeout(wanted.get("VisibilityTimeout"))
    checks.fifo_only(wanted.get("ReceiveRequestAttemptId"), "ReceiveRequestAttemptId")
    shown = _system_names(wanted)
    limit = wanted.get("MaxNumberOfMessages", 1)

    def look(queue: Queue) -> Reception:
        return node.messages.receive(queue.id, limit, wanted.get("VisibilityTimeout"))

    default_wait = node.queue(name).number("ReceiveMessageWaitTimeSeconds")
    wait = wanted.get("WaitTimeSeconds", default_wait)
    if wait == 0:
        reception = node.on_queue(name, look)
    else:
        deadline = monotonic() + wait
        with node.waiters.register(name.arn) as waiter:
            node.notifier.announce(name.arn)
            reception = node.on_queue(name, look)
            while not reception.messages and waiter.wait(deadline, reception.next_visible_in):
                reception = node.on_queue(name, look)
    messages = [_shown(node, name, m, shown, wanted) for m in reception.messages]
    return {"Messages": messages} if messages else {}


def delete_message(node: Node, call: Call) -> None:
    """Delete a message that was received."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    node.queue(name)
    receipt = receipts.decode(call.parameters["ReceiptHandle"], node.receipt_key, name.arn)
    node.on_queue(name, lambda queue: node.messages.delete(queue.id, [receipt]))


def change_message_visibility(node: Node, call: Call) -> None:
    """Hide a message in flight for so long from now on, or show it again."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    node.queue(name)
    failure = change_visibilities(node, name, [call.parameters])[0]
    if failure is not None:
        raise failure


def change_visibilities(
    node: Node, name: QueueName, entries: Sequence[Entry]
) -> list[errors.SqsError | None]:
    """Change the visibility of messages; return each one's failure, or None, in order."""
    failures: list[errors.SqsError | None] = [None] * len(entries)
    good: list[int] = []
    decoded: list[receipts.Receipt] = []
    for place, entry in enumerate(entries):
        try:
            checks.visibility_timeout(entry.get("VisibilityTimeout"))
            decoded.append(receipts.decode(entry["ReceiptHandle"], node.receipt_key, name.arn))
            good.append(place)
        except errors.SqsError as error:
            failures[place] = error
    if not good:
        return failures
    timeouts = [
        entries[p].get("VisibilityTimeout", node.queue(name).number("VisibilityTimeout"))
        for p in good
    ]
    outcomes = node.on_queue(
        name, lambda queue: node.messages.change_visibility(queue.id, decoded, timeouts)
    )
    for place, timeout, outcome in zip(good, timeouts, outcomes, strict=True):
        failures[place] = _failure(outcome, entries[place]["ReceiptHandle"], timeout)
    if 0 in timeouts:
        node.sent(name, timeouts.count(0))
    return failures


def outgoing(call: Call, entry: Entry) -> tuple[OutgoingMessage, dict[str, Any]]:
    """Check a message to be sent; return it and the answer to give once it is stored."""
    body, attributes = entry["MessageBody"], entry.get("MessageAttributes", {})
    if not body:
        raise checks.missing("MessageBody")
    checks.characters(body)
    checks.message_attributes(attributes)
    checks.delay(entry.get("DelaySeconds"))
    checks.identifier(entry.get("MessageGroupId"), "MessageGroupId")
    checks.fifo_only(entry.get("MessageDeduplicationId"), "MessageDeduplicationId")
    system_attributes = entry.get("MessageSystemAttributes", {})
    trace_header = checks.trace_header(system_attributes) or call.request.headers.get(
        "X-Amzn-Trace-Id"
    )
    message = OutgoingMessage(
        message_id=str(uuid4()),
        body=body,
        attributes=msgspec.json.encode(attributes).decode() if attributes else None,
        delay_seconds=entry.get("DelaySeconds"),
        group_id=entry.get("MessageGroupId"),
        trace_header=trace_header,
    )
    result = {"MessageId": message.message_id, "MD5OfMessageBody": digest.of_body(body)}
    if attributes:
        result["MD5OfMessageAttributes"] = digest.of_attributes(attributes)
    if system_attributes:
        result["MD5OfMessageSystemAttributes"] = digest.of_attributes(system_attributes)
    return message, result


def store(node: Node, call: Call, name: QueueName, messages: Sequence[OutgoingMessage]) -> None:
    """Store checked messages and wake who waits for them."""
    sender = call.identity.sender
    node.on_queue(name, lambda queue: node.messages.send(queue.id, messages, sender))
    node.sent(name, len(messages))


def size(entry: Entry) -> int:
    """Return the bytes of a message that count against the limits: body and attributes."""
    return len(entry["MessageBody"].encode()) + sum(
        len(name.encode())
        + len(value.get("DataType", "").encode())
        + len(value.get("StringValue", "").encode())
        + len(value.get("BinaryValue", b""))
        for name, value in entry.get("MessageAttributes", {}).items()
    )


def _failure(outcome: str, handle: str, timeout: int) -> errors.SqsError | None:
    match outcome:
        case "missing":
            return checks.invalid(
                handle,
                "ReceiptHandle",
                "Message does not exist or is not available for visibility timeout change.",
            )
        case "not-in-flight":
            return errors.MessageNotInflight()
        case "beyond-limit":
            return checks.invalid(
                timeout,
                "VisibilityTimeout",
                "Total VisibilityTimeout for the message is beyond the limit"
                f" [{limits.VISIBILITY_TIMEOUT} seconds]",
            )
    return None


def _system_names(wanted: Mapping[str, Any]) -> list[str]:
    names = wanted.get("MessageSystemAttributeNames") or wanted.get("AttributeNames") or []
    for name in names:
        if name != "All" and name not in _SYSTEM_ATTRIBUTES:
            raise errors.InvalidAttributeName(f"Unknown Attribute {name}.")
    return list(_SYSTEM_ATTRIBUTES) if "All" in names else names


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
    values = {attribute: _SYSTEM_ATTRIBUTES[attribute](message) for attribute in system}
    if present := {key: value for key, value in values.items() if value is not None}:
        result["Attributes"] = present
    if message.attributes and (patterns := wanted.get("MessageAttributeNames")):
        stored = _stored_attributes(message)
        chosen = {key: value.shown() for key, value in stored.items() if _is_wanted(key, patterns)}
        if chosen:
            result["MessageAttributes"] = chosen
            result["MD5OfMessageAttributes"] = digest.of_attributes(chosen)
    return result


def _stored_attributes(message: ReceivedMessage) -> "dict[str, _StoredAttribute]":
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
