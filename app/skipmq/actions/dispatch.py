"""Runs the action of a call: permissions, limits, the queue's lookup, then the action."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic

import msgspec
from msgspec import structs

from skipmq.actions import access, checks, regions
from skipmq.actions.action import Action
from skipmq.actions.skipmq.table import EXTENSIONS
from skipmq.actions.sqs.table import ACTIONS
from skipmq.actions.topics.table import TOPICS
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors
from skipmq.protocol.call import Call, Response, Result
from skipmq.protocol.identity import Need, QueueName

EVERY: Mapping[str, Action] = {**ACTIONS, **EXTENSIONS, **TOPICS}
# These reach no queue of another region than the client's: clients repeat them when they are done.
_IN_OWN_REGION = frozenset({"DeleteQueue", "PurgeQueue", "DeletePickedMessages"})


class Authorised(msgspec.Struct, frozen=True):
    """A call that may run, with what it needs, first on the queue of QueueUrl in its region.

    `queue` is that queue if it was looked up; the call's deadline is no later than its action's.
    """

    call: Call
    action: Action
    needs: Sequence[Need]
    queue: Queue | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What has become of a request, after `seconds`.

    It has no call if it was refused before it was decoded; a call of the console has no response.
    """

    call: Call | None = None
    authorised: Authorised | None = None
    result: Result = None
    failure: errors.SqsError | None = None
    response: Response | None = None
    seconds: float = 0.0


def queue_name(call: Call, authorised: Authorised | None = None) -> QueueName | None:
    """Return the queue that a call names, or None; also for a call that was refused."""
    needs: Sequence[Need] = ()
    if authorised is not None:
        needs = authorised.needs
    else:
        with suppress(errors.SqsError):
            needs = _needs(EVERY[call.action], call)
    return needs[0].queue if needs else None


async def perform(node: Node, call: Call) -> Result:
    """Run a call without limits; raise the errors of `authorise` and `run`."""
    return await run(node, await authorise(node, call))


async def authorise(
    node: Node, call: Call, admit: Callable[[Sequence[Need]], None] | None = None
) -> Authorised:
    """Check the caller's permissions, call `admit` with them, and look the queue up.

    Raises errors.AccessDenied, errors.QueueDoesNotExist, and the errors of `admit`.
    """
    action = EVERY[call.action]
    needs = _needs(action, call)
    if action.seconds is not None:
        call = structs.replace(call, deadline=min(call.deadline, monotonic() + action.seconds))
    queue: Queue | None = None
    if node.keys is not None:
        queue = await access.check(node, call, needs)
    if admit is not None:
        admit(needs)
    if not action.permissions:
        return Authorised(call, action, needs)
    name = needs[0].queue
    if action.is_fresh:
        node.queues.forget(name.arn)
    elif (queue := queue or node.queues.known(name)) is not None:
        return Authorised(call, action, needs, queue)
    return await _looked_up(node, Authorised(call, action, needs))


async def run(node: Node, authorised: Authorised) -> Result:
    """Run the action of a call and return its result.

    It is retried if its queue is purged or created again meanwhile. Raises
    errors.QueueDoesNotExist, and the errors of the action.
    """
    call, action, queue = authorised.call, authorised.action, authorised.queue
    if not action.permissions:
        return await action.run(node, call)
    if queue is not None:
        try:
            return await action.run(node, call, queue)
        except errors.QueueMoved:
            node.queues.forget(queue.name.arn)
        authorised = await _looked_up(node, authorised)
    name = authorised.needs[0].queue
    operation = partial(action.run, node, call)
    return await node.queues.on(name, call.deadline, operation, authorised.queue)


async def _looked_up(node: Node, authorised: Authorised) -> Authorised:
    """Return a call with its queue, where URLs name no region perhaps that of another one."""
    call, needs = authorised.call, authorised.needs
    if not call.identity.is_of_any_region:
        return structs.replace(authorised, queue=None)
    name = needs[0].queue
    try:
        queue: Queue | None = await node.queues.find(name, call.deadline)
    except errors.QueueDoesNotExist:
        if call.action in _IN_OWN_REGION:
            raise
        found = queue = await regions.find(node, call, name)
        needs = [n._replace(queue=found.name) if n.queue == name else n for n in needs]
        if authorised.action.is_fresh:
            node.queues.forget(found.name.arn)
            queue = None
    return structs.replace(authorised, needs=needs, queue=queue)


def _needs(action: Action, call: Call) -> Sequence[Need]:
    """Return the permissions that a call needs, first those on the queue of QueueUrl."""
    needs: Sequence[Need] = ()
    if permissions := action.permissions:
        url, identity = call.parameters.QueueUrl, call.identity
        is_cached = len(url) <= checks.LONGEST_CACHED
        find = access.queue_needs if is_cached else access.queue_needs.__wrapped__
        needs = find(url, identity.account, identity.region, permissions)
    return needs if action.needs is None else [*needs, *action.needs(call)]
