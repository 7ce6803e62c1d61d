"""Beyond SQS: why messages failed, as their consumers leave it with them; dead-letter queues."""

from typing import Any

from msgspec import UNSET, structs

from skipmq.actions import access, checks
from skipmq.actions.sqs import messages
from skipmq.broker import dead_letters, inspection
from skipmq.broker.dead_letters import DeadLetterQueue
from skipmq.broker.inspection import MessageFailures, Reference
from skipmq.broker.messages import receipts
from skipmq.broker.messages.fifo import receiver_text
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors, extensions, limits, requests
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

_MOST_KINDS, _MOST_SOURCES = 50, 20
_MAXIMUM_RESULTS = 100


async def fail_message(
    node: Node, call: Call[extensions.FailMessage], queue: Queue
) -> dict[str, Any]:
    """Keep why its work failed with a received message; with a timeout, hide it for that long."""
    parameters = call.parameters
    reason = parameters.FailureReason
    if not reason.strip() or "\0" in reason:
        raise errors.InvalidParameterValueException(
            "FailureReason must have a character other than spaces, and no NUL."
        )
    checks.visibility_timeout(parameters.VisibilityTimeout)
    received = _received(node, queue, parameters.ReceiptHandle)
    if not await inspection.record_failure(
        node.database, queue, *received, reason, _receiver(call), call.deadline
    ):
        raise messages.gone(parameters.ReceiptHandle)
    if parameters.VisibilityTimeout is not None:
        change = requests.ChangeMessageVisibility(
            QueueUrl=parameters.QueueUrl,
            ReceiptHandle=parameters.ReceiptHandle,
            VisibilityTimeout=parameters.VisibilityTimeout,
        )
        (failure,) = await messages.change_visibilities(node, call, queue, [change], messages.gone)
        if failure is not None:
            raise failure
    return {}


async def dead_letter_message(
    node: Node, call: Call[extensions.DeadLetterMessage], queue: Queue
) -> dict[str, Any]:
    """Move a received message to the dead-letter queue, with why its work failed."""
    handle, reason = call.parameters.ReceiptHandle, call.parameters.FailureReason or ""
    if "\0" in reason:
        raise errors.InvalidParameterValueException("FailureReason must have no NUL.")
    received = _received(node, queue, handle)
    if not await inspection.dead_letter(
        node.database, queue, *received, reason, _receiver(call), call.deadline
    ):
        raise messages.gone(handle)
    return {}


def _receiver(call: Call) -> str:
    return receiver_text(call.identity.key_id, call.request.client)


def _received(node: Node, queue: Queue, handle: str) -> tuple[Reference, int]:
    """Return the message of a receipt handle, and the number of its receive."""
    receipt = receipts.seal(node.receipt_keys.accepted, queue.name.arn).decode(handle)
    return Reference(receipt.message, receipt.message_id), receipt.receive_count


async def list_message_failures(
    node: Node, call: Call[extensions.ListMessageFailures], queue: Queue
) -> dict[str, Any]:
    """Group the first messages of a queue by kind of failure, and by the queue they came from."""
    found = await inspection.failures(node.database, queue, call.deadline)
    counted = sum(each.messages for each in found)
    kinds: dict[str | None, list[MessageFailures]] = {}
    sources: dict[str | None, list[MessageFailures]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
        sources.setdefault(each.source, []).append(each)
    return {
        "Kinds": [
            ({} if kind is None else {"FailureKind": kind}) | _sum(groups)
            for kind, groups in _largest(kinds)[:_MOST_KINDS]
        ],
        "Sources": [
            ({} if arn is None else {"QueueArn": arn, "Exists": groups[0].source_exists})
            | {"Messages": sum(each.messages for each in groups)}
            for arn, groups in _largest(sources)[:_MOST_SOURCES]
        ],
        "Counted": counted,
        "IsWhole": counted < limits.GROUPED,
    }


def _largest(
    groups: dict[str | None, list[MessageFailures]],
) -> list[tuple[str | None, list[MessageFailures]]]:
    return sorted(groups.items(), key=lambda item: -sum(each.messages for each in item[1]))


def _sum(groups: list[MessageFailures]) -> dict[str, int]:
    return {
        "Messages": sum(each.messages for each in groups),
        "OldestTimestamp": min(each.oldest for each in groups) // 1_000,
        "NewestTimestamp": max(each.newest for each in groups) // 1_000,
    }


async def list_dead_letter_queues(
    node: Node, call: Call[extensions.ListDeadLetterQueues]
) -> dict[str, Any]:
    """List dead-letter queues with their sources, first the absent and then the fullest ones.

    Sources whose attributes the caller may not read are omitted, as are queues without other
    sources. A dead-letter queue whose attributes it may not read has no numbers.
    """
    search, offset, limit = checks.page(call.parameters, _MAXIMUM_RESULTS)
    account, region = call.identity.account, call.identity.region
    rows, others = await dead_letters.queues(
        node.database, account, region, search, limit=limit, offset=offset, deadline=call.deadline
    )
    redelivering = await dead_letters.redelivering(
        node.database, account, region, search, call.deadline
    )
    return {
        "DeadLetterQueues": [shown for row in rows if (shown := _shown(node, call, row)).sources],
        "Matches": len(rows) + others.queues,
        "Redelivering": [
            structs.replace(each, policy="")
            for each in redelivering
            if _may_read(node, call, each.name, each.policy)
        ],
    }


def _shown(node: Node, call: Call, row: DeadLetterQueue) -> DeadLetterQueue:
    """Return what the caller may see of a queue."""
    sources = [
        structs.replace(each, messages=each.messages or 0, policy=None)
        for each in row.sources
        if _may_read(node, call, each.name, each.policy)
    ]
    assert row.name is not None
    shown = structs.replace(row, sources=sources, policy=None)
    if row.exists and _may_read(node, call, row.name, row.policy):
        return shown
    numbers = dict.fromkeys(("fifo", "next_name", "messages", "oldest", "arrived"), UNSET)
    return structs.replace(shown, **numbers)


def _may_read(node: Node, call: Call, queue: str, policy: str | None) -> bool:
    name = QueueName(call.identity.account, call.identity.region, queue)
    return access.allows(node, call, "GetQueueAttributes", name, policy or "")
