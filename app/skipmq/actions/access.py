"""Who may do what: asked once for every call, before its action runs.

Source: AWS Service Authorization Reference, "Actions, resources, and condition keys for Amazon
SQS"; SQS Developer Guide, "Amazon SQS API permissions" (a batch needs what its entries need; which
actions a queue's policy cannot give to other accounts).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import urlsplit

from skipmq import errors
from skipmq.actions import checks, moves
from skipmq.model import Need, Queue, QueueName
from skipmq.node import Node
from skipmq.node.key_store import KeyStore
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

# Return the permissions that a call needs.
Needs: TypeAlias = Callable[[Call], list[Need]]


async def check(node: Node, call: Call) -> Queue | None:
    """Check that a caller who has proved who it is may do what it asks for.

    Returns the queue that the call is for, where it has been looked up. Raises errors.AccessDenied.
    """
    if node.keys is None or call.identity.key_id is None:
        return None
    assert call.needs is not None
    queue = await _check_all(node, node.keys, call, call.needs)
    if call.action == "StartMessageMoveTask" and call.parameters.DestinationArn is None:
        # Not before: the search takes time, and that would reveal what is in the queue.
        targets = [*dict.fromkeys([queue async for queue in _targets(node, call)])]
        await _check_all(node, node.keys, call, [Need("SendMessage", each) for each in targets])
        # Nothing else is sent to, whatever comes into the queue meanwhile.
        call.origins = [each.arn for each in targets]
    return queue


async def _check_all(node: Node, keys: KeyStore, call: Call, needs: Sequence[Need]) -> Queue | None:
    """Check permissions; return the queue of the first."""
    found: dict[QueueName, Queue | None] = {}
    for permission, name in needs:
        if name not in found:
            is_there = name.name != "*" and call.action != "CreateQueue"
            found[name] = await _found(node, call, name) if is_there else None
        _check(keys, call, permission, name, found[name])
    return found[needs[0].queue] if needs else None


async def _found(node: Node, call: Call, name: QueueName) -> Queue | None:
    """Return the queue that a call needs a permission on, where there is one.

    Raises errors.ResourceNotFoundException, as AWS does, when there is none that the handle of a
    task names.
    """
    account = call.identity.account
    if name.account != account:
        queue = await node.queues.seen_by(account, name, call.deadline)
        if queue is None and call.action == "CancelMessageMoveTask":
            raise errors.ResourceNotFoundException(moves.ABSENT_SOURCE)
        return queue
    with suppress(errors.QueueDoesNotExist):
        return await node.queues.find(name, call.deadline)
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
    policy = (await node.queues.find(name, call.deadline)).attributes.policy
    return frozenset(each for each in permissions if allows(node, call, each, name, policy))


def _check(
    keys: KeyStore, call: Call, permission: str, name: QueueName, queue: Queue | None
) -> None:
    """Check one permission. Whoever has none learns nothing of the queue, not even if it is."""
    policy = queue.attributes.policy if queue is not None else ""
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


def queue_needs(*permissions: str) -> Needs:
    """Return what says that these are needed on the queue of QueueUrl."""

    def needs(call: Call) -> list[Need]:
        name = checks.queue_name(call.parameters.QueueUrl, call.identity)
        return [Need(each, name) for each in permissions]

    return needs


def account_needs(permission: str) -> Needs:
    """Return what says that a permission is needed on all queues of the caller's account."""

    def needs(call: Call) -> list[Need]:
        return [Need(permission, QueueName(call.identity.account, call.identity.region, "*"))]

    return needs


def picked_needs(*permissions: str) -> Needs:
    """Return what says that these are needed on the source, and a send on the destination."""
    source = queue_needs(*permissions)

    def needs(call: Call) -> list[Need]:
        target = checks.queue_name(call.parameters.DestinationQueueUrl, call.identity)
        return [*source(call), Need("SendMessage", target)]

    return needs


def new_queue_needs(call: Call) -> list[Need]:
    """Return what CreateQueue needs."""
    identity = call.identity
    name = QueueName(identity.account, identity.region, call.parameters.QueueName)
    return [Need("CreateQueue", name)]


def named_queue_needs(call: Call) -> list[Need]:
    """Return what GetQueueUrl needs; raise errors.QueueDoesNotExist."""
    account = call.parameters.QueueOwnerAWSAccountId or call.identity.account
    name = checks.existing_queue_name(account, call.parameters.QueueName, call.identity.region)
    return [Need("GetQueueUrl", name)]


def move_start_needs(call: Call) -> list[Need]:
    """Return what StartMessageMoveTask needs."""
    source, destination = call.parameters.SourceArn, call.parameters.DestinationArn
    permissions = ("StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
    return [*_of_arn(source, *permissions), *_of_arn(destination, "SendMessage")]


def move_list_needs(call: Call) -> list[Need]:
    """Return what ListMessageMoveTasks needs."""
    return _of_arn(call.parameters.SourceArn, "ListMessageMoveTasks")


def move_end_needs(call: Call) -> list[Need]:
    """Return what CancelMessageMoveTask needs; raise errors.InvalidParameterValueException."""
    return _of_arn(moves.source_of(call.parameters.TaskHandle), "CancelMessageMoveTask")


def task_start_needs(call: Call) -> list[Need]:
    """Return what a task on messages that match needs: to match is to look at messages."""
    kind, destination = call.parameters.Kind, call.parameters.DestinationQueueUrl
    takes = () if kind == "copy" else ("ReceiveMessage", "DeleteMessage")
    needs = queue_needs("StartMessageMoveTask", "PeekMessages", *takes)(call)
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
