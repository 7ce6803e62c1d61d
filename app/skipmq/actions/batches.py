"""The batch forms: each entry succeeds or fails alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from skipmq import errors, limits, receipts
from skipmq.actions import checks, messages
from skipmq.model import OutgoingMessage
from skipmq.node import Node
from skipmq.protocol import Call

Entry = Mapping[str, Any]


def send_message_batch(node: Node, call: Call) -> dict[str, Any]:
    """Store up to ten messages."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    queue = node.queue(name)
    entries: Sequence[Entry] = call.parameters["Entries"]
    checks.batch(entries, "SendMessageBatchRequestEntry")
    sizes = [messages.size(entry) for entry in entries]
    if sum(sizes) > limits.BATCH_BYTES:
        raise errors.BatchRequestTooLong(
            f"Batch requests cannot be longer than {limits.BATCH_BYTES} bytes."
            f" You have sent {sum(sizes)} bytes."
        )
    most = queue.number("MaximumMessageSize")
    accepted: list[OutgoingMessage] = []
    answer = _Answer()
    for entry, length in zip(entries, sizes, strict=True):
        try:
            if length > most:
                raise errors.InvalidParameterValueException(
                    "One or more parameters cannot be validated. Reason: Message must be shorter"
                    f" than {most} bytes."
                )
            message, result = messages.outgoing(call, entry)
        except errors.SqsError as error:
            answer.fail(entry, error)
        else:
            accepted.append(message)
            answer.succeed(entry, result)
    if accepted:
        messages.store(node, call, name, accepted)
    return answer.content


def delete_message_batch(node: Node, call: Call) -> dict[str, Any]:
    """Delete up to ten messages that were received."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    node.queue(name)
    entries: Sequence[Entry] = call.parameters["Entries"]
    checks.batch(entries, "DeleteMessageBatchRequestEntry")
    decoded: list[receipts.Receipt] = []
    answer = _Answer()
    for entry in entries:
        try:
            decoded.append(receipts.decode(entry["ReceiptHandle"], node.receipt_key, name.arn))
        except errors.SqsError as error:
            answer.fail(entry, error)
        else:
            answer.succeed(entry)
    if decoded:
        node.on_queue(name, lambda queue: node.messages.delete(queue.id, decoded))
    return answer.content


def change_message_visibility_batch(node: Node, call: Call) -> dict[str, Any]:
    """Hide up to ten messages in flight for so long from now on."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    node.queue(name)
    entries: Sequence[Entry] = call.parameters["Entries"]
    checks.batch(entries, "ChangeMessageVisibilityBatchRequestEntry")
    answer = _Answer()
    failures = messages.change_visibilities(node, name, entries)
    for entry, failure in zip(entries, failures, strict=True):
        if failure is None:
            answer.succeed(entry)
        else:
            answer.fail(entry, failure)
    return answer.content


class _Answer:
    """The Successful and Failed lists of a batch's answer."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {"Successful": [], "Failed": []}

    def succeed(self, entry: Entry, result: Mapping[str, Any] | None = None) -> None:
        self.content["Successful"].append({"Id": entry["Id"], **(result or {})})

    def fail(self, entry: Entry, error: errors.SqsError) -> None:
        self.content["Failed"].append(
            {
                "Id": entry["Id"],
                "SenderFault": error.fault == "Sender",
                "Code": error.code,
                "Message": error.message,
            }
        )
