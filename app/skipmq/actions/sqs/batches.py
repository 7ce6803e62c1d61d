"""The batch actions; each entry succeeds or fails on its own."""

from collections.abc import Sequence

from skipmq.actions import checks
from skipmq.actions.sqs import messages
from skipmq.broker.messages.message import OutgoingMessage
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, errors, limits, requests
from skipmq.protocol.call import Call
from skipmq.protocol.message import body_md5


async def send_message_batch(
    node: Node, call: Call[requests.SendMessageBatch], queue: Queue
) -> answers.SendMessageBatchResult:
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
    failed: list[answers.BatchResultErrorEntry] = []
    limit = queue.attributes.maximum_message_size
    for entry, size in zip(entries, sizes, strict=True):
        try:
            message = messages.outgoing(entry, size, queue, trace)
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
        return answers.SendMessageBatchResult(Failed=failed)
    sender = call.identity.sender
    stored = await node.messages(queue).send(queue, accepted_messages, sender, call.deadline)
    node.sent(queue, len(accepted))
    succeeded = [
        messages.answer(
            entry,
            each,
            answers.SendMessageBatchResultEntry(
                Id=entry.Id,
                MessageId=each.message_id,
                MD5OfMessageBody=body_md5(entry.MessageBody),
            ),
        )
        for entry, each in zip(accepted, stored, strict=True)
    ]
    return answers.SendMessageBatchResult(Successful=succeeded, Failed=failed)


async def delete_message_batch(
    node: Node, call: Call[requests.DeleteMessageBatch], queue: Queue
) -> answers.DeleteMessageBatchResult:
    """Delete up to ten received messages."""
    entries = call.parameters.Entries
    checks.batch(entries, "DeleteMessageBatchRequestEntry")
    done, failed = _outcomes(entries, await messages.delete(node, call, queue, entries))
    succeeded = [*map(answers.DeleteMessageBatchResultEntry, done)]
    return answers.DeleteMessageBatchResult(Successful=succeeded, Failed=failed)


async def change_message_visibility_batch(
    node: Node, call: Call[requests.ChangeMessageVisibilityBatch], queue: Queue
) -> answers.ChangeMessageVisibilityBatchResult:
    """Set the visibility timeouts of up to ten messages in flight, from now on."""
    entries = call.parameters.Entries
    checks.batch(entries, "ChangeMessageVisibilityBatchRequestEntry")
    failures = await messages.change_visibilities(node, call, queue, entries, _gone)
    done, failed = _outcomes(entries, failures)
    succeeded = [*map(answers.ChangeMessageVisibilityBatchResultEntry, done)]
    return answers.ChangeMessageVisibilityBatchResult(Successful=succeeded, Failed=failed)


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


def _outcomes(
    entries: Sequence[checks.Entry], failures: Sequence[errors.SqsError | None]
) -> tuple[list[str], list[answers.BatchResultErrorEntry]]:
    """Return the ids of the entries that have succeeded, and the failures of the others."""
    if failures.count(None) == len(failures):
        return [entry.Id for entry in entries], []
    each = [*zip(entries, failures, strict=True)]
    return (
        [entry.Id for entry, failure in each if failure is None],
        [_failed(entry, failure) for entry, failure in each if failure is not None],
    )


def _failed(entry: checks.Entry, error: errors.SqsError) -> answers.BatchResultErrorEntry:
    return answers.BatchResultErrorEntry(
        Id=entry.Id,
        SenderFault=error.fault == "Sender",
        Code=error.code,
        Message=error.message,
    )
