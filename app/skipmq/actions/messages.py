"""Send, delete and hide messages. A single send, delete or change is a batch of one."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from skipmq import digest, errors, ids, limits, receipts
from skipmq.actions import checks
from skipmq.model import OutgoingMessage, Queue, QueueName, StoredMessage
from skipmq.node import Node
from skipmq.protocol import Call

Entry = Mapping[str, Any]

_SEQUENCE_BASE = 10**19


def send_message(node: Node, call: Call) -> dict[str, Any]:
    """Store a message."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    queue = node.queue(name)
    message = outgoing(call, call.parameters, queue)
    most = queue.number("MaximumMessageSize")
    if size(call.parameters) > most:
        raise errors.InvalidParameterValueException(
            "One or more parameters are invalid. Reason: Message must be shorter than"
            f" {most} bytes."
        )
    (stored,) = store(node, call, name, [message])
    return answer(call.parameters, stored)


def delete_message(node: Node, call: Call) -> None:
    """Delete a message that was received."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    node.queue(name)
    failure = delete(node, name, [call.parameters])[0]
    if failure is not None:
        raise failure


def delete(node: Node, name: QueueName, entries: Sequence[Entry]) -> list[errors.SqsError | None]:
    """Delete messages; return each one's failure, or None, in order."""
    failures, good, decoded = _decoded(node, name, entries)
    if not good:
        return failures
    outcomes = node.on_queue(name, lambda queue: node.messages.delete(queue, decoded))
    for place, outcome in zip(good, outcomes, strict=True):
        if outcome == "expired":
            handle = entries[place]["ReceiptHandle"]
            failures[place] = checks.invalid(
                handle, "ReceiptHandle", "The receipt handle has expired."
            )
    if node.queue(name).fifo:
        # Their groups may go on.
        node.sent(name, len(good))
    return failures


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
    failures, good, decoded = _decoded(
        node, name, entries, lambda e: checks.visibility_timeout(e.get("VisibilityTimeout"))
    )
    if not good:
        return failures
    timeouts = [
        entries[p].get("VisibilityTimeout", node.queue(name).number("VisibilityTimeout"))
        for p in good
    ]
    outcomes = node.on_queue(
        name, lambda queue: node.messages.change_visibility(queue, decoded, timeouts)
    )
    for place, timeout, outcome in zip(good, timeouts, outcomes, strict=True):
        failures[place] = _failure(outcome, entries[place]["ReceiptHandle"], timeout)
    if 0 in timeouts:
        node.sent(name, timeouts.count(0))
    return failures


def outgoing(call: Call, entry: Entry, queue: Queue) -> OutgoingMessage:
    """Check a message to be sent and return it."""
    body, attributes = entry["MessageBody"], entry.get("MessageAttributes", {})
    if not body:
        raise checks.missing("MessageBody")
    checks.characters(body)
    checks.message_attributes(attributes)
    checks.delay(entry.get("DelaySeconds"))
    checks.identifier(entry.get("MessageGroupId"), "MessageGroupId")
    given = checks.trace_header(entry.get("MessageSystemAttributes", {}))
    trace_header = given or call.request.headers.get("X-Amzn-Trace-Id") or None
    return OutgoingMessage(
        message_id=ids.new(),
        body=body,
        attributes=msgspec.json.encode(attributes).decode() if attributes else None,
        delay_seconds=entry.get("DelaySeconds"),
        group_id=entry.get("MessageGroupId"),
        deduplication_id=_deduplication_id(entry, queue),
        trace_header=trace_header,
    )


def _deduplication_id(entry: Entry, queue: Queue) -> str | None:
    """Return under which id a message is sent once; check what only FIFO queues have and lack."""
    given: str | None = entry.get("MessageDeduplicationId")
    if not queue.fifo:
        checks.fifo_only(given, "MessageDeduplicationId")
        return None
    checks.identifier(given, "MessageDeduplicationId")
    if entry.get("DelaySeconds"):
        checks.fifo_only(entry["DelaySeconds"], "DelaySeconds")
    if entry.get("MessageGroupId") is None:
        raise checks.missing("MessageGroupId")
    if given is not None:
        return given
    if queue.attributes["ContentBasedDeduplication"] == "true":
        return sha256(entry["MessageBody"].encode()).hexdigest()
    raise errors.InvalidParameterValueException(
        "The queue should either have ContentBasedDeduplication enabled or"
        " MessageDeduplicationId provided explicitly"
    )


def store(
    node: Node, call: Call, name: QueueName, messages: Sequence[OutgoingMessage]
) -> list[StoredMessage]:
    """Store checked messages and wake who waits for them."""
    sender = call.identity.sender
    stored = node.on_queue(name, lambda queue: node.messages.send(queue, messages, sender))
    node.sent(name, len(messages))
    return stored


def shown_number(sequence_number: int) -> str:
    """Return a sequence number as twenty digits, so that numbers compare as texts too."""
    return str(_SEQUENCE_BASE + sequence_number)


def answer(entry: Entry, stored: StoredMessage) -> dict[str, Any]:
    """Return what the sender of a message is told."""
    result = {
        "MessageId": stored.message_id,
        "MD5OfMessageBody": digest.of_body(entry["MessageBody"]),
    }
    if attributes := entry.get("MessageAttributes"):
        result["MD5OfMessageAttributes"] = digest.of_attributes(attributes)
    if system_attributes := entry.get("MessageSystemAttributes"):
        result["MD5OfMessageSystemAttributes"] = digest.of_attributes(system_attributes)
    if stored.sequence_number is not None:
        result["SequenceNumber"] = shown_number(stored.sequence_number)
    return result


def size(entry: Entry) -> int:
    """Return the bytes of a message that count against the limits: body and attributes."""
    return len(entry["MessageBody"].encode()) + sum(
        len(name.encode())
        + len(value.get("DataType", "").encode())
        + len(value.get("StringValue", "").encode())
        + len(value.get("BinaryValue", b""))
        for name, value in entry.get("MessageAttributes", {}).items()
    )


def _decoded(
    node: Node,
    name: QueueName,
    entries: Sequence[Entry],
    check: Callable[[Entry], None] | None = None,
) -> tuple[list[errors.SqsError | None], list[int], list[receipts.Receipt]]:
    """Return the failures, the places and the receipts of those entries that are in order."""
    failures: list[errors.SqsError | None] = [None] * len(entries)
    good: list[int] = []
    decoded: list[receipts.Receipt] = []
    for place, entry in enumerate(entries):
        try:
            if check is not None:
                check(entry)
            decoded.append(receipts.decode(entry["ReceiptHandle"], node.receipt_key, name.arn))
            good.append(place)
        except errors.SqsError as error:
            failures[place] = error
    return failures, good, decoded


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
