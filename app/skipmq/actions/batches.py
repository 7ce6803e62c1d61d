"""The batch actions; each entry succeeds or fails on its own."""

from collections.abc import Sequence
from typing import Any

from skipmq import errors, limits
from skipmq.actions import checks, messages
from skipmq.model import OutgoingMessage, Queue
from skipmq.node import Node
from skipmq.protocol import Call, requests


async def send_message_batch(
    node: Node, call: Call[requests.SendMessageBatch], queue: Queue
) -> dict[str, Any]:
    """Store up to ten messages."""
    entries = call.parameters.Entries
    checks.batch(entries, "SendMessageBatchRequestEntry")
    checks.batch_values(entries)
    sizes = [*map(messages.size, entries)]
    size = sum(sizes)
    if size > limits.BATCH_BYTES:
        raise errors.BatchRequestTooLong(
            f"Batch requests cannot be longer than {limits.BATCH_BYTES} bytes."
            f" You have sent {size} bytes."
        )
    if queue.fifo:
        _check_fifo(entries, queue)
    trace = messages.trace_header(node, call)
    accepted: list[requests.SendMessageBatchRequestEntry] = []
    accepted_messages: list[OutgoingMessage] = []
    failed: list[dict[str, Any]] = []
    limit = queue.attributes.maximum_message_size
    for entry, size in zip(entries, sizes, strict=True):
        try:
            message = messages.outgoing(entry, queue, trace)
            if size > limit:
                raise messages.too_long(limit, "cannot be validated")
        except errors.MissingRequiredParameterException as error:
            failed.append(_failed(entry, errors.InvalidParameterValueException(error.message)))
        except errors.SqsError as error:
            failed.append(_failed(entry, error))
        else:
            accepted.append(entry)
            accepted_messages.append(message)
    if not accepted:
        return _answer([], failed)
    sender = call.identity.sender
    stored = await node.messages(queue).send(queue, accepted_messages, sender, call.deadline)
    node.sent(queue, len(accepted))
    succeeded = [
        messages.answer(entry, each, {"Id": entry.Id})
        for entry, each in zip(accepted, stored, strict=True)
    ]
    return _answer(succeeded, failed)


async def delete_message_batch(
    node: Node, call: Call[requests.DeleteMessageBatch], queue: Queue
) -> dict[str, Any]:
    """Delete up to ten received messages."""
    entries = call.parameters.Entries
    checks.batch(entries, "DeleteMessageBatchRequestEntry")
    return _each(entries, await messages.delete(node, call, queue, entries))


async def change_message_visibility_batch(
    node: Node, call: Call[requests.ChangeMessageVisibilityBatch], queue: Queue
) -> dict[str, Any]:
    """Set the visibility timeouts of up to ten messages in flight, from now on."""
    entries = call.parameters.Entries
    checks.batch(entries, "ChangeMessageVisibilityBatchRequestEntry")
    failures = await messages.change_visibilities(node, call, queue, entries, _gone)
    return _each(entries, failures)


def _gone(_: str) -> errors.SqsError:
    """Return the failure of an entry whose message is gone, which SQS has in batches only."""
    return errors.ReceiptHandleIsInvalid(messages.GONE)


def _check_fifo(entries: Sequence[messages.Outgoing], queue: Queue) -> None:
    """Refuse the whole batch if a message has no group or no deduplication id."""
    try:
        for entry in entries:
            messages.check_fifo(entry, queue)
    except errors.MissingRequiredParameterException as error:
        raise errors.InvalidParameterValueException(error.message) from error


def _each(
    entries: Sequence[checks.Entry], failures: Sequence[errors.SqsError | None]
) -> dict[str, Any]:
    if failures.count(None) == len(failures):
        return {"Successful": [{"Id": entry.Id} for entry in entries]}
    each = [*zip(entries, failures, strict=True)]
    return _answer(
        [{"Id": entry.Id} for entry, failure in each if failure is None],
        [_failed(entry, failure) for entry, failure in each if failure is not None],
    )


def _answer(succeeded: list[dict[str, Any]], failed: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer to a batch, without empty lists."""
    answer = {}
    if succeeded:
        answer["Successful"] = succeeded
    if failed:
        answer["Failed"] = failed
    return answer


def _failed(entry: checks.Entry, error: errors.SqsError) -> dict[str, Any]:
    return {
        "Id": entry.Id,
        "SenderFault": error.fault == "Sender",
        "Code": error.code,
        "Message": error.message,
    }
