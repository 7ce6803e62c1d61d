"""Runs the action of a call: permissions, limits, the queue's lookup, then the action."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic

from skipmq.actions import access, regions
from skipmq.actions.action import Action
from skipmq.actions.skipmq.table import EXTENSIONS
from skipmq.actions.sqs.table import ACTIONS
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors
from skipmq.protocol.call import Call, Result
from skipmq.protocol.identity import QueueName

EVERY: Mapping[str, Action] = {**ACTIONS, **EXTENSIONS}
# These reach no queue of another region than the client's: clients repeat them when they are done.
_IN_OWN_REGION = frozenset({"DeleteQueue", "PurgeQueue", "DeletePickedMessages"})


def queue_name(call: Call) -> QueueName | None:
    """Return the queue that a call names, or None; also for a call that was refused."""
    needs = call.needs
    if needs is None:
        with suppress(errors.SqsError):
            needs = EVERY[call.action].needs(call)
    return needs[0].queue if needs else None


async def perform(node: Node, call: Call, admit: Callable[[Call], None] | None = None) -> Result:
    """Check the caller's permissions, call `admit`, run the action and return its result.

    The action is retried if its queue is purged or created again meanwhile. Raises
    errors.AccessDenied, errors.QueueDoesNotExist, and the errors of `admit` and the action.
    """
    action = EVERY[call.action]
    call.needs = action.needs(call)
    if action.seconds is not None:
        call.deadline = min(call.deadline, monotonic() + action.seconds)
    queue: Queue | None = None
    if node.keys is not None:
        queue = await access.check(node, call)
    if admit is not None:
        admit(call)
    if not action.on_queue:
        return await action.run(node, call)
    name = call.needs[0].queue
    if action.is_fresh:
        node.queues.forget(name.arn)
    elif (queue := queue or node.queues.known(name)) is not None:
        try:
            return await action.run(node, call, queue)
        except errors.QueueMoved:
            node.queues.forget(name.arn)
    return await _look_up_and_run(node, call, action, name)


async def _look_up_and_run(node: Node, call: Call, action: Action, name: QueueName) -> Result:
    """Look a queue up, perhaps in another region, and run an action on it, again if it moves."""
    queue: Queue | None = None
    if call.identity.is_of_any_region:
        try:
            queue = await node.queues.find(name, call.deadline)
        except errors.QueueDoesNotExist:
            if call.action in _IN_OWN_REGION:
                raise
            queue = await regions.find(node, call, name)
            # For the logs.
            needs, old, name = call.needs or (), name, queue.name
            call.needs = [n._replace(queue=name) if n.queue == old else n for n in needs]
            if action.is_fresh:
                node.queues.forget(name.arn)
                queue = None
    return await node.queues.on(name, call.deadline, partial(action.run, node, call), queue)
