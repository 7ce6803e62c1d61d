"""Authorisation: the permissions that calls need, checked before their actions run.

Source: AWS Service Authorization Reference, "Actions, resources, and condition keys for Amazon
SQS"; SQS Developer Guide, "Amazon SQS API permissions" (the permissions of batches, and the actions
that a queue's policy cannot grant to other accounts).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import urlsplit

from skipmq.actions import checks, regions
from skipmq.broker import moves, queues
from skipmq.broker.key_store import KeyStore
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Need, QueueName, TopicName
from skipmq.protocol.sns.errors import AuthorizationError, NotFound

# The permissions that a queue's policy can grant to other accounts.
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
# The permissions that a topic's policy can grant to other accounts.
SHARED_TOPIC = frozenset({"GetTopicAttributes", "ListSubscriptionsByTopic", "Publish", "Subscribe"})
ABSENT_SOURCE = "The resource that you specified for the SourceArn parameter doesn't exist."
_SOURCES = 1_000

# A function that returns permissions that a call needs.
Needs: TypeAlias = Callable[[Call], Sequence[Need]]


async def check(node: Node, call: Call, needs: Sequence[Need]) -> Queue | None:
    """Check the permissions that a call needs, if it is signed.

    Return the call's queue if it was looked up. Raises errors.AccessDenied.
    """
    if node.keys is None or call.identity.key_id is None:
        return None
    return await _check_all(node, node.keys, call, needs)


async def origins(node: Node, call: Call) -> list[str] | None:
    """Return the ARNs of the queues to which a redrive without destination moves messages.

    None is all. Messages of other origins that arrive meanwhile are not moved. Raises
    errors.AccessDenied unless the caller may send to each of them.
    """
    if node.keys is None or call.identity.key_id is None:
        return None
    targets = [*dict.fromkeys([queue async for queue in _targets(node, call)])]
    await _check_all(node, node.keys, call, [Need("SendMessage", each) for each in targets])
    return [each.arn for each in targets]


async def _check_all(node: Node, keys: KeyStore, call: Call, needs: Sequence[Need]) -> Queue | None:
    """Check permissions; return the queue of the first."""
    if len(needs) == 1 and call.action != "CreateQueue":
        # Nearly all calls need one permission on a queue of the caller's account that is known.
        permission, name = needs[0]
        queue = node.queues.known(name)
        if queue is not None and name.account == call.identity.account:
            _check(keys, call, permission, name, queue)
            return queue
    found: dict[str, Queue | None] = {}
    for permission, name in needs:
        if isinstance(name, TopicName):
            await _check_topic(node, keys, call, permission, name)
            continue
        if name.arn not in found:
            may_exist = name.name != "*" and call.action != "CreateQueue"
            found[name.arn] = await _find(node, call, name) if may_exist else None
        _check(keys, call, permission, name, found[name.arn])
    return found.get(needs[0].queue.arn) if needs else None


async def _check_topic(
    node: Node, keys: KeyStore, call: Call, permission: str, name: TopicName
) -> None:
    """Check one permission on a topic; do not reveal whether it exists to other accounts."""
    policy: str | None = None
    is_new = name.name == "*" or permission == "CreateTopic"
    with suppress(NotFound):
        if not is_new:
            policy = (await node.topics.find(name, call.deadline)).attributes.get("Policy", "")
    is_own = name.account == call.identity.account
    is_allowed = keys.allows(call.identity, permission, name, policy or "", lambda: _context(call))
    if not is_allowed or not (is_own or (policy is not None and permission in SHARED_TOPIC)):
        raise AuthorizationError(
            f"User: {call.identity.user} is not authorized to perform: SNS:{permission} on"
            f" resource: {name.arn}"
        )


async def _find(node: Node, call: Call, name: QueueName) -> Queue | None:
    """Return the queue that a call needs a permission on, or None.

    Raises errors.ResourceNotFoundException, as AWS does, for an absent source in a task's handle.
    """
    account = call.identity.account
    if name.account != account:
        queue = await node.queues.seen_by(account, name, call.deadline)
        if queue is None and call.action == "CancelMessageMoveTask":
            raise errors.ResourceNotFoundException(ABSENT_SOURCE)
        return queue
    try:
        return await node.queues.find(name, call.deadline)
    except errors.QueueDoesNotExist:
        return None


async def check_again(node: Node, call: Call, need: Need) -> None:
    """Check the key and the permission of a call again after a wait.

    Raises errors.InvalidClientTokenId, errors.ExpiredToken, errors.AccessDenied.
    """
    if node.keys is not None and call.identity.key_id is not None:
        node.keys.check(call.identity.key_id)
        await check(node, call, [need])


def allows(node: Node, call: Call, permission: str, name: QueueName, policy: str) -> bool:
    """Return whether a caller has a permission on a queue of its own account with this policy."""
    if node.keys is None or call.identity.key_id is None:
        return True
    return node.keys.allows(call.identity, permission, name, policy, lambda: _context(call))


async def permitted(
    node: Node, call: Call, name: QueueName, permissions: Sequence[str]
) -> frozenset[str]:
    """Return those of the permissions that a caller has on a queue of its own account.

    Raises errors.QueueDoesNotExist.
    """
    policy = (await node.queues.find(name, call.deadline)).attributes.policy
    return frozenset(each for each in permissions if allows(node, call, each, name, policy))


def _check(
    keys: KeyStore, call: Call, permission: str, name: QueueName, queue: Queue | None
) -> None:
    """Check one permission; do not reveal whether the queue exists."""
    policy = queue.attributes.policy if queue is not None else ""
    is_grantable = name.account == call.identity.account or (
        queue is not None and permission in SHARED
    )
    # Evaluated in any case, so that all refusals take the same time.
    is_allowed = keys.allows(call.identity, permission, name, policy, lambda: _context(call))
    if is_grantable and is_allowed:
        return
    raise errors.AccessDenied(
        f"User: {call.identity.user} is not authorized to perform: sqs:{permission} on"
        f" resource: {name.arn}"
    )


async def _targets(node: Node, call: Call) -> AsyncIterator[QueueName]:
    """Yield the queues to which a move task without a destination may send.

    These are the origins of its messages and its current sources, perhaps with duplicates.
    """
    name = regions.named(call.parameters.SourceArn)
    if name is None:
        return
    for arn in await moves.origins(node.database, name.arn, call.deadline):
        if (origin := regions.named(arn)) is not None:
            yield origin
    after = ""
    while True:
        found = await queues.dead_letter_sources(
            node.database, name, after, _SOURCES, call.deadline
        )
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


@lru_cache(maxsize=10_000)
def queue_needs(
    url: str, account: str, region: str, permissions: tuple[str, ...]
) -> Sequence[Need]:
    """Return the needs of an action on the queue of a URL; the longest URLs are not cached."""
    name = checks.queue_at(url, account, region)
    return tuple(Need(each, name) for each in permissions)


def account_needs(permission: str, kind: type[QueueName]) -> Needs:
    """Return the needs of an action on all queues, or topics, of the caller's account."""

    def needs(call: Call) -> list[Need]:
        return [Need(permission, kind(call.identity.account, call.identity.region, "*"))]

    return needs


def destination_needs(call: Call) -> list[Need]:
    """Return the needs on the queue of DestinationQueueUrl."""
    target = checks.queue_name(call.parameters.DestinationQueueUrl, call.identity)
    return [Need("SendMessage", target)]


def new_queue_needs(call: Call) -> list[Need]:
    """Return the needs of CreateQueue."""
    identity = call.identity
    name = QueueName(identity.account, identity.region, call.parameters.QueueName)
    return [Need("CreateQueue", name)]


def named_queue_needs(call: Call) -> list[Need]:
    """Return the needs of GetQueueUrl; raise errors.QueueDoesNotExist."""
    account = call.parameters.QueueOwnerAWSAccountId or call.identity.account
    name = checks.existing_queue_name(account, call.parameters.QueueName, call.identity.region)
    return [Need("GetQueueUrl", name)]


def move_start_needs(call: Call) -> list[Need]:
    """Return the needs of StartMessageMoveTask."""
    source, destination = call.parameters.SourceArn, call.parameters.DestinationArn
    permissions = ("StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
    return [*arn_needs(source, *permissions), *arn_needs(destination, "SendMessage")]


def move_list_needs(call: Call) -> list[Need]:
    """Return the needs of ListMessageMoveTasks."""
    return arn_needs(call.parameters.SourceArn, "ListMessageMoveTasks")


def task_start_needs(call: Call) -> list[Need]:
    """Return the needs of StartMessageTask; a filter reveals what PeekMessages would."""
    kind, destination = call.parameters.Kind, call.parameters.DestinationQueueUrl
    takes = () if kind == "copy" else ("ReceiveMessage", "DeleteMessage")
    source = checks.queue_name(call.parameters.QueueUrl, call.identity)
    needs = [Need(each, source) for each in ("StartMessageMoveTask", "PeekMessages", *takes)]
    return needs if destination is None else [*needs, *destination_needs(call)]


def arn_needs(arn: str | None, *permissions: str) -> list[Need]:
    """Return the needs on the queue of an ARN; none if it is not a queue's ARN."""
    name = regions.named(arn)
    return [Need(each, name) for each in permissions] if name is not None else []
