"""The batch forms: each entry succeeds or fails alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from skipmq import errors, limits
from skipmq.actions import checks, messages
from skipmq.model import OutgoingMessage, Queue
from skipmq.node import Node
from skipmq.protocol import Call


async def send_message_batch(node: Node, call: Call) -> dict[str, Any]:
    """Store up to ten messages."""
    name = checks.queue_name(call.parameters.QueueUrl, call.identity)
    queue = await node.queue(name, call.deadline)
    entries: Sequence[Any] = call.parameters.Entries
    checks.batch(entries, "SendMessageBatchRequestEntry")
    size = sum(messages.size(entry) for entry in entries)
    if size > limits.BATCH_BYTES:
        raise errors.BatchRequestTooLong(
            f"Batch requests cannot be longer than {limits.BATCH_BYTES} bytes."
            f" You have sent {size} bytes."
        )
    if queue.fifo:
        _check_fifo(entries, queue)
    trace = messages.trace_header(node, call)
    accepted: dict[str, OutgoingMessage] = {}
    answer = _Answer()
    for entry in entries:
        try:
            message = messages.outgoing(entry, queue, trace)
        except errors.MissingRequiredParameterException as error:
            answer.fail(entry, errors.InvalidParameterValueException(error.message))
        except errors.SqsError as error:
            answer.fail(entry, error)
        else:
            accepted[entry.Id] = message
    if accepted:
        stored = await messages.store(node, call, name, list(accepted.values()))
        results = dict(zip(accepted, stored, strict=True))
        for entry in entries:
            if entry.Id in results:
                answer.succeed(entry, messages.answer(entry, results[entry.Id]))
    return answer.content


async def delete_message_batch(node: Node, call: Call) -> dict[str, Any]:
    """Delete up to ten messages that were received."""
    name = checks.queue_name(call.parameters.QueueUrl, call.identity)
    await node.queue(name, call.deadline)
    entries: Sequence[Any] = call.parameters.Entries
    checks.batch(entries, "DeleteMessageBatchRequestEntry")
    return _each(entries, await messages.delete(node, call, name, entries))


async def change_message_visibility_batch(node: Node, call: Call) -> dict[str, Any]:
    """Hide up to ten messages in flight for so long from now on."""
    name = checks.queue_name(call.parameters.QueueUrl, call.identity)
    await node.queue(name, call.deadline)
    entries: Sequence[Any] = call.parameters.Entries
    checks.batch(entries, "ChangeMessageVisibilityBatchRequestEntry")
    failures = await messages.change_visibilities(node, call, name, entries, _gone)
    return _each(entries, failures)


def _gone(_: str) -> errors.SqsError:
    """Return the failure of an entry whose message is gone, as SQS names it in batches alone."""
    return errors.ReceiptHandleIsInvalid(messages.GONE)


def _check_fifo(entries: Sequence[Any], queue: Queue) -> None:
    """Refuse the whole batch for a message without its group or its deduplication id."""
    try:
        for entry in entries:
            messages.check_fifo(entry, queue)
    except errors.MissingRequiredParameterException as error:
        raise errors.InvalidParameterValueException(error.message) from error


def _each(entries: Sequence[Any], failures: Sequence[errors.SqsError | None]) -> dict[str, Any]:
    answer = _Answer()
    for entry, failure in zip(entries, failures, strict=True):
        if failure is None:
            answer.succeed(entry)
        else:
            answer.fail(entry, failure)
    return answer.content


class _Answer:
    """The Successful and Failed lists of a batch's answer; an empty one is not there."""

    def __init__(self) -> None:
        self.content: dict[str, list[Any]] = {}

    def succeed(self, entry: Any, result: Mapping[str, Any] | None = None) -> None:
        succeeded = self.content.setdefault("Successful", [])
        succeeded.append({"Id": entry.Id, **(result or {})})

    def fail(self, entry: Any, error: errors.SqsError) -> None:
        self.content.setdefault("Failed", []).append(
            {
                "Id": entry.Id,
                "SenderFault": error.fault == "Sender",
                "Code": error.code,
                "Message": error.message,
            }
        )
