"""Send and delete messages and change their visibility; a single action is a batch of one."""

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

import msgspec

from skipmq.actions import checks
from skipmq.broker.messages import receipts
from skipmq.broker.messages.message import OutgoingMessage, StoredMessage
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, body_schemas, errors, limits, requests
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName
from skipmq.protocol.message import attributes_md5, body_md5, forbidden_character, new_uuid

GONE = "Message does not exist or is not available for visibility timeout change"
_SEQUENCE_BASE = 10**19
# The parameters of a single action, or an entry of its batch.
Outgoing: TypeAlias = requests.SendMessage | requests.SendMessageBatchRequestEntry
Deletion: TypeAlias = requests.DeleteMessage | requests.DeleteMessageBatchRequestEntry
Change: TypeAlias = (
    requests.ChangeMessageVisibility | requests.ChangeMessageVisibilityBatchRequestEntry
)
Entry = TypeVar("Entry", Deletion, Change)
Sent = TypeVar("Sent", answers.SendMessageResult, answers.SendMessageBatchResultEntry)
_TRACE_HEADER = re.compile("[ -~]{1,1024}")


async def send_message(
    node: Node, call: Call[requests.SendMessage], queue: Queue
) -> answers.SendMessageResult:
    """Store a message."""
    parameters, limit = call.parameters, queue.attributes.maximum_message_size
    message = outgoing(parameters, size(parameters), queue, trace_header(node, call))
    if message.size > limit:
        raise too_long(limit, "are invalid")
    sender = call.identity.sender
    (stored,) = await node.messages(queue).send(queue, [message], sender, call.deadline)
    node.sent(queue, 1)
    result = answers.SendMessageResult(
        MessageId=stored.message_id, MD5OfMessageBody=body_md5(parameters.MessageBody)
    )
    return answer(parameters, stored, result)


async def delete_message(node: Node, call: Call[requests.DeleteMessage], queue: Queue) -> None:
    """Delete a received message."""
    (failure,) = await delete(node, call, queue, [call.parameters])
    if failure is not None:
        raise failure


async def delete(
    node: Node, call: Call, queue: Queue, entries: Sequence[Deletion]
) -> list[errors.SqsError | None]:
    """Delete messages; return each one's failure, or None, in order."""
    failures, good, decoded = _decoded(node, queue.name, entries)
    if not good:
        return failures
    outcomes = await node.messages(queue).delete(queue, decoded, call.deadline)
    consumer = node.consumers.counters(queue.id, call.identity.key_id, call.request)
    consumer.add_deleted(len(good))
    if outcomes.count("deleted") < len(outcomes):
        for place, outcome in zip(good, outcomes, strict=True):
            if outcome == "expired":
                handle = entries[place].ReceiptHandle
                failures[place] = errors.invalid(
                    handle, "ReceiptHandle", "The receipt handle has expired."
                )
            elif outcome == "held":
                failures[place] = errors.Locked()
    if queue.fifo or queue.attributes.limited:
        # The next messages of their groups may be visible, or there is room for others.
        node.sent(queue, len(good))
    return failures


async def change_message_visibility(
    node: Node, call: Call[requests.ChangeMessageVisibility], queue: Queue
) -> None:
    """Set the visibility timeout of a message in flight, from now on."""
    (failure,) = await change_visibilities(node, call, queue, [call.parameters], gone)
    if failure is not None:
        raise failure


async def change_visibilities(
    node: Node,
    call: Call,
    queue: Queue,
    entries: Sequence[Change],
    gone: Callable[[str], errors.SqsError],
) -> list[errors.SqsError | None]:
    """Change the visibility of messages; return each one's failure, or None, in order.

    `gone` makes the failure of a message that does not exist any more from its handle.
    """
    failures, good, decoded = _decoded(
        node, queue.name, entries, lambda entry: checks.visibility_timeout(entry.VisibilityTimeout)
    )
    if not good:
        return failures
    default = queue.attributes.visibility_timeout
    given = [entries[place].VisibilityTimeout for place in good]
    timeouts = [default if timeout is None else timeout for timeout in given]
    outcomes = await node.messages(queue).change_visibility(queue, decoded, timeouts, call.deadline)
    for place, timeout, outcome in zip(good, timeouts, outcomes, strict=True):
        handle = entries[place].ReceiptHandle
        failures[place] = gone(handle) if outcome == "missing" else _failure(outcome, timeout)
    if 0 in timeouts:
        node.sent(queue, timeouts.count(0))
    return failures


def trace_header(node: Node, call: Call) -> str | None:
    """Return the trace header of a request, for its messages that have none of their own.

    A malformed header is ignored. With tracing, W3C's header is used if there is no other.
    """
    headers = call.request.headers
    header = headers.get("x-amzn-trace-id")
    if header and _TRACE_HEADER.fullmatch(header):
        return header
    return None if node.tracing is None else node.tracing.trace_header(headers)


def outgoing(entry: Outgoing, size: int, queue: Queue, trace: str | None) -> OutgoingMessage:
    """Check a message to send but for its size in bytes, and return it."""
    body, attributes = entry.MessageBody, entry.MessageAttributes
    if not body:
        raise errors.missing("MessageBody")
    if forbidden_character(body) is not None:
        raise checks.forbidden_character(errors.InvalidMessageContents)
    if attributes:
        checks.message_attributes(attributes)
        if queue.attributes.priority_mode != "none":
            checks.priority(attributes)
    if entry.DelaySeconds is not None:
        checks.delay(entry.DelaySeconds, queue.attributes.maximum_delay_seconds)
    if entry.MessageGroupId is not None:
        checks.identifier(entry.MessageGroupId, "MessageGroupId")
    if entry.MessageSystemAttributes:
        trace = checks.trace_header(entry.MessageSystemAttributes)
    if queue.attributes.body_schema_mode == "enforce":
        _check_schema(body, queue.attributes.body_schema)
    deduplication_id: str | None = None
    if queue.fifo or entry.MessageDeduplicationId is not None:
        deduplication_id = _deduplication_id(entry, queue)
    return OutgoingMessage(
        new_uuid(),
        body,
        size,
        msgspec.json.encode(attributes).decode() if attributes else None,
        entry.DelaySeconds,
        entry.MessageGroupId,
        deduplication_id,
        trace,
    )


def _check_schema(body: str, schema: str) -> None:
    if schema and (problem := body_schemas.read(schema).problem(body)):
        raise errors.InvalidMessageContents(f"The body does not fit the queue's schema: {problem}.")


def _deduplication_id(entry: Outgoing, queue: Queue) -> str:
    """Return the deduplication id of a message; check what FIFO queues need."""
    given: str | None = entry.MessageDeduplicationId
    if not (queue.fifo or queue.attributes.deduplication_seconds):
        checks.fifo_only(given, "MessageDeduplicationId")
    checks.identifier(given, "MessageDeduplicationId")
    if given is not None and not queue.fifo:
        return given
    if entry.DelaySeconds:
        checks.fifo_only(entry.DelaySeconds, "DelaySeconds")
    check_fifo(entry, queue)
    return sha256(entry.MessageBody.encode()).hexdigest() if given is None else given


def check_fifo(entry: Outgoing, queue: Queue) -> None:
    """Check that a message for a FIFO queue has a group and can be deduplicated."""
    if entry.MessageGroupId is None:
        raise errors.missing("MessageGroupId")
    by_content = queue.attributes.content_based_deduplication
    if entry.MessageDeduplicationId is None and not by_content:
        raise errors.InvalidParameterValueException(
            "The queue should either have ContentBasedDeduplication enabled or"
            " MessageDeduplicationId provided explicitly"
        )


def shown_number(sequence_number: int) -> str:
    """Return a sequence number as twenty digits, so that texts sort like numbers."""
    return str(_SEQUENCE_BASE + sequence_number)


def answer(entry: Outgoing, stored: StoredMessage, result: Sent) -> Sent:
    """Add to the result for the sender of a message what few messages have, and return it."""
    if attributes := entry.MessageAttributes:
        result.MD5OfMessageAttributes = attributes_md5(attributes)
    if system_attributes := entry.MessageSystemAttributes:
        result.MD5OfMessageSystemAttributes = attributes_md5(system_attributes)
    if stored.sequence_number is not None:
        result.SequenceNumber = shown_number(stored.sequence_number)
    return result


def size(entry: Outgoing) -> int:
    """Return the size of a message in bytes: body and attributes, as SQS counts them."""
    body: str = entry.MessageBody
    bytes_ = len(body) if body.isascii() else len(body.encode())
    return bytes_ + attributes_size(entry.MessageAttributes) if entry.MessageAttributes else bytes_


def attributes_size(attributes: Mapping[str, Any]) -> int:
    """Return the size of attributes of a message, of SQS or SNS, in bytes."""
    return sum(
        len(name.encode())
        + len(value.DataType.encode())
        + len((value.StringValue or "").encode())
        + len(value.BinaryValue or b"")
        for name, value in attributes.items()
    )


def too_long(limit: int, failure: str) -> errors.SqsError:
    """Return the error for a message beyond its queue's MaximumMessageSize in bytes."""
    return errors.InvalidParameterValueException(
        f"One or more parameters {failure}. Reason: Message must be shorter than {limit} bytes."
    )


def _decoded(
    node: Node,
    name: QueueName,
    entries: Sequence[Entry],
    check: Callable[[Entry], None] | None = None,
) -> tuple[list[errors.SqsError | None], list[int], list[receipts.Receipt]]:
    """Return all entries' failures, or None, and the places and receipts of the valid entries."""
    failures: list[errors.SqsError | None] = [None] * len(entries)
    good: list[int] = []
    decoded: list[receipts.Receipt] = []
    decode = receipts.seal(node.receipt_keys.accepted, name.arn).decode
    for place, entry in enumerate(entries):
        try:
            if check is not None:
                check(entry)
            decoded.append(decode(entry.ReceiptHandle))
        except errors.SqsError as error:
            failures[place] = error
        else:
            good.append(place)
    return failures, good, decoded


def gone(handle: str) -> errors.SqsError:
    """Return the error for the receipt handle of a message that the queue no longer has."""
    return errors.invalid(handle, "ReceiptHandle", f"{GONE}.")


def _failure(outcome: str, timeout: int) -> errors.SqsError | None:
    match outcome:
        case "held":
            return errors.Locked()
        case "not-in-flight":
            return errors.MessageNotInflight()
        case "beyond-limit":
            return errors.invalid(
                timeout,
                "VisibilityTimeout",
                "Total VisibilityTimeout for the message is beyond the limit"
                f" [{limits.VISIBILITY_TIMEOUT} seconds]",
            )
    return None
