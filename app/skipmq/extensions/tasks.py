"""Beyond SQS: tasks that move, copy or delete the messages of a queue that match a filter.

They are stored and run like message move tasks: CancelMessageMoveTask accepts their handles, and a
queue has one task at a time.
"""

from typing import Any

from skipmq import errors, limits
from skipmq.actions import access, checks, moves
from skipmq.model import MessageFilter, MoveTask, Queue
from skipmq.node import Node
from skipmq.protocol import Call, extensions

KINDS = ("move", "copy", "delete")
# Characters of each text of a filter.
_TEXT = 256


async def start_message_task(node: Node, call: Call[extensions.StartMessageTask]) -> dict[str, Any]:
    """Start to move, copy or delete the messages of a queue that match a filter."""
    parameters, identity = call.parameters, call.identity
    kind, rate = parameters.Kind, parameters.MaxNumberOfMessagesPerSecond
    if kind not in KINDS:
        raise checks.invalid(kind, "Kind", f"Must be one of {', '.join(KINDS)}.")
    checks.moves_per_second(rate)
    texts = (parameters.BodyContains, parameters.AttributeName, parameters.AttributeValue)
    if any(text is not None and (not text or "\0" in text or len(text) > _TEXT) for text in texts):
        raise errors.InvalidParameterValueException(
            f"A text of a filter must have 1 to {_TEXT} characters and no NUL."
        )
    source = checks.queue_name(parameters.QueueUrl, identity).arn
    target = parameters.DestinationQueueUrl
    destination = None if target is None else checks.queue_name(target, identity).arn
    task = await node.moves.start_matching(
        kind, source, destination, rate=rate, matching=MessageFilter(*texts), deadline=call.deadline
    )
    return {"TaskHandle": moves.task_handle(task, source)}


async def list_message_tasks(
    node: Node, call: Call[extensions.ListMessageTasks], queue: Queue
) -> dict[str, Any]:
    """List the newest tasks of a queue, redrives and those with a filter.

    Filters are omitted for a caller that may not peek at the queue's messages.
    """
    name = queue.name
    checks.tasks_listed(call.parameters.MaxResults)
    limit = call.parameters.MaxResults or limits.MOVE_TASKS_LISTED
    tasks = await node.moves.list(name.arn, limit, call.deadline, every=True)
    policy = queue.attributes.policy
    may_peek = access.allows(node, call, "PeekMessages", name, policy)
    return {"Tasks": [_shown(task, name.arn, may_peek=may_peek) for task in tasks]}


def _shown(task: MoveTask, source: str, *, may_peek: bool) -> dict[str, Any]:
    shown = {"Kind": task.kind} | moves.shown_task(task, source)
    if task.kind == "redrive":
        return shown
    shown["ApproximateNumberOfMessagesPassed"] = task.passed
    texts = (task.body_contains, task.attribute_name, task.attribute_value)
    names = ("BodyContains", "AttributeName", "AttributeValue")
    filters = {name: text for name, text in zip(names, texts, strict=True) if text is not None}
    return shown | (filters if may_peek else {})
