"""Who may do what: asked once for every call, before its action runs.

Source: AWS Service Authorization Reference, "Actions, resources, and condition keys for Amazon
SQS"; SQS Developer Guide, "Amazon SQS API permissions" (a batch needs what its entries need; which
actions a queue's policy cannot give to other accounts).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from skipmq import errors
from skipmq.actions import checks, moves
from skipmq.key_store import KeyStore
from skipmq.model import Queue, QueueName
from skipmq.node import Node
from skipmq.protocol import Call

# What a queue's policy can give to other accounts.
SHARED = frozenset(
    {
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    }
)
_SOURCES, _ARN_PARTS = 1_000, 6


class Need(NamedTuple):
    """A permission that a call needs, on a queue, or on all of an account where its name is `*`."""

    permission: str
    queue: QueueName


async def check(node: Node, call: Call) -> None:
    """Check that a caller who has proved who it is may do what it asks for.

    Raises errors.AccessDenied.
    """
    if node.keys is None or call.identity.key_id is None:
        return
    await _check_all(node, node.keys, call, NEEDS[call.action](call))
    if call.action == "StartMessageMoveTask" and call.parameters.DestinationArn is None:
        # Not before: the search takes time, and that would reveal what is in the queue.
        targets = [*dict.fromkeys([queue async for queue in _targets(node, call)])]
        needs = [Need("SendMessage", queue) for queue in targets]
        await _check_all(node, node.keys, call, needs)
        # Nothing else is sent to, whatever comes into the queue meanwhile.
        call.origins = [queue.arn for queue in targets]


async def _check_all(node: Node, keys: KeyStore, call: Call, needs: Sequence[Need]) -> None:
    for permission, name in needs:
        queue = None
        if name.name != "*" and call.action != "CreateQueue":
            queue = await _found(node, call, name)
        _check(keys, call, permission, name, queue)


async def _found(node: Node, call: Call, name: QueueName) -> Queue | None:
    """Return the queue that a call needs a permission on, where there is one.

    Raises errors.ResourceNotFoundException, as AWS does, when there is none that the handle of a
    task names.
    """
    account = call.identity.account
    if name.account != account:
        queue = await node.queue_seen_by(account, name, call.deadline)
        if queue is None and call.action == "CancelMessageMoveTask":
            raise errors.ResourceNotFoundException(moves.ABSENT_SOURCE)
        return queue
    with suppress(errors.QueueDoesNotExist):
        return await node.queue(name, call.deadline)
    return None


async def check_again(node: Node, call: Call) -> None:
    """Check the key and the rights of a call that has waited since they were checked.

    Raises errors.InvalidClientTokenId, errors.ExpiredToken, errors.AccessDenied.
    """
    if node.keys is not None and call.identity.key_id is not None:
        node.keys.check(call.identity.key_id)
        await check(node, call)


def allows(node: Node, call: Call, permission: str, name: QueueName, policy: str) -> bool:
    """Tell whether a caller may do something with a queue of its own account that has a policy."""
    if node.keys is None or call.identity.key_id is None:
        return True
    return node.keys.allows(call.identity, permission, name, policy, lambda: _context(call))


async def permitted(
    node: Node, call: Call, name: QueueName, permissions: Sequence[str]
) -> frozenset[str]:
    """Return which of these permissions a caller has on a queue of its own account.

    Raises errors.QueueDoesNotExist.
    """
    policy = (await node.queue(name, call.deadline)).attributes["Policy"]
    return frozenset(each for each in permissions if allows(node, call, each, name, policy))


def _check(
    keys: KeyStore, call: Call, permission: str, name: QueueName, queue: Queue | None
) -> None:
    """Check one permission. Whoever has none learns nothing of the queue, not even if it is."""
    policy = queue.attributes["Policy"] if queue is not None else ""
    may_be = name.account == call.identity.account or (queue is not None and permission in SHARED)
    # Asked in any case: it takes the same time.
    is_allowed = keys.allows(call.identity, permission, name, policy, lambda: _context(call))
    if may_be and is_allowed:
        return
    raise errors.AccessDenied(
        f"User: {call.identity.user} is not authorized to perform: sqs:{permission} on"
        f" resource: {name.arn}"
    )


async def _targets(node: Node, call: Call) -> AsyncIterator[QueueName]:
    """Give the queues that a move task without a destination sends to.

    These are where messages came from, and the sources of today; one may be given twice.
    """
    name = _named(call.parameters.SourceArn)
    if name is None:
        return
    for arn in await node.moves.origins(name.arn, call.deadline):
        if (origin := _named(arn)) is not None:
            yield origin
    after = ""
    while True:
        found = await node.queues.dead_letter_sources(name, after, _SOURCES, call.deadline)
        for each in found:
            yield QueueName(name.account, name.region, each)
        if len(found) < _SOURCES:
            return
        after = found[-1]


def _context(call: Call) -> dict[str, str]:
    request = call.request
    context = {
        "aws:sourceip": request.client,
        "aws:securetransport": str(urlsplit(request.base_url).scheme == "https").lower(),
    }
    if agent := request.headers.get("user-agent"):
        context["aws:useragent"] = agent
    return context


Needs = Callable[[Call], list[Need]]


def _on_queue(*permissions: str) -> Needs:
    def needs(call: Call) -> list[Need]:
        name = checks.queue_name(call.parameters.QueueUrl, call.identity)
        return [Need(each, name) for each in permissions]

    return needs


def _create(call: Call) -> list[Need]:
    identity = call.identity
    return [
        Need("CreateQueue", QueueName(identity.account, identity.region, call.parameters.QueueName))
    ]


def _get_url(call: Call) -> list[Need]:
    account = call.parameters.QueueOwnerAWSAccountId or call.identity.account
    name = checks.existing_queue_name(account, call.parameters.QueueName, call.identity.region)
    return [Need("GetQueueUrl", name)]


def _on_all(permission: str) -> Needs:
    def needs(call: Call) -> list[Need]:
        return [Need(permission, QueueName(call.identity.account, call.identity.region, "*"))]

    return needs


def _on_picked(*permissions: str) -> Needs:
    source = _on_queue(*permissions)

    def needs(call: Call) -> list[Need]:
        target = checks.queue_name(call.parameters.DestinationQueueUrl, call.identity)
        return [*source(call), Need("SendMessage", target)]

    return needs


def _start_move(call: Call) -> list[Need]:
    source, destination = call.parameters.SourceArn, call.parameters.DestinationArn
    permissions = ("StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
    return [*_of_arn(source, *permissions), *_of_arn(destination, "SendMessage")]


def _start_task(call: Call) -> list[Need]:
    """Return what a task on what matches needs: to match is to look at messages."""
    kind, destination = call.parameters.Kind, call.parameters.DestinationQueueUrl
    takes = () if kind == "copy" else ("ReceiveMessage", "DeleteMessage")
    needs = _on_queue("StartMessageMoveTask", "PeekMessages", *takes)(call)
    if destination is not None:
        needs.append(Need("SendMessage", checks.queue_name(destination, call.identity)))
    return needs


def _of_arn(arn: str | None, *permissions: str) -> list[Need]:
    """Return what is needed on the queue of an ARN; nothing where no queue can have it.

    The database finds a queue by its ARN in this one form.
    """
    name = _named(arn)
    return [Need(each, name) for each in permissions] if name is not None else []


def _named(arn: str | None) -> QueueName | None:
    parts = (arn or "").split(":")
    name = QueueName(parts[4], parts[3], parts[5]) if len(parts) == _ARN_PARTS else None
    return name if name is not None and name.arn == arn else None


NEEDS: dict[str, Needs] = {
    "AddPermission": _on_queue("AddPermission"),
    "CancelMessageMoveTask": lambda call: _of_arn(
        moves.source_of(call.parameters.TaskHandle), "CancelMessageMoveTask"
    ),
    "ChangeMessageVisibility": _on_queue("ChangeMessageVisibility"),
    "ChangeMessageVisibilityBatch": _on_queue("ChangeMessageVisibility"),
    "CopyMessages": _on_picked("PeekMessages"),
    "CreateQueue": _create,
    "DeleteMessage": _on_queue("DeleteMessage"),
    "DeleteMessageBatch": _on_queue("DeleteMessage"),
    "DeletePickedMessages": _on_queue("ReceiveMessage", "DeleteMessage"),
    "DeleteQueue": _on_queue("DeleteQueue"),
    "DescribeDatabase": _on_all("DescribeDatabase"),
    "GetMessageTimeline": _on_queue("PeekMessages"),
    "GetQueueActivity": _on_queue("GetQueueAttributes"),
    "GetQueueAttributes": _on_queue("GetQueueAttributes"),
    "GetQueueUrl": _get_url,
    "ListAuditRecords": _on_all("ListAuditRecords"),
    "ListDeadLetterQueues": _on_all("ListQueues"),
    "ListDeadLetterSourceQueues": _on_queue("ListDeadLetterSourceQueues"),
    "ListMessageMoveTasks": lambda call: _of_arn(call.parameters.SourceArn, "ListMessageMoveTasks"),
    "ListMessageTasks": _on_queue("ListMessageMoveTasks"),
    "ListQueueStatistics": _on_all("ListQueues"),
    "ListQueues": _on_all("ListQueues"),
    "ListQueueTags": _on_queue("ListQueueTags"),
    "MoveMessages": _on_picked("ReceiveMessage", "DeleteMessage"),
    "PeekMessages": _on_queue("PeekMessages"),
    "PeekNewestMessages": _on_queue("PeekMessages"),
    "PurgeQueue": _on_queue("PurgeQueue"),
    "ReceiveMessage": _on_queue("ReceiveMessage"),
    "RemovePermission": _on_queue("RemovePermission"),
    "SendMessage": _on_queue("SendMessage"),
    "SendMessageBatch": _on_queue("SendMessage"),
    "SetQueueAttributes": _on_queue("SetQueueAttributes"),
    "StartMessageMoveTask": _start_move,
    "StartMessageTask": _start_task,
    "TagQueue": _on_queue("TagQueue"),
    "UntagQueue": _on_queue("UntagQueue"),
}
