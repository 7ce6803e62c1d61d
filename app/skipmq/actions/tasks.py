"""Beyond SQS: tasks that move, copy or delete the messages of a queue that match a filter.

They are kept, continued and cancelled as message move tasks are: CancelMessageMoveTask takes their
handles, and a queue has one task at a time.
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
    """Begin to move, copy or delete the messages of a queue that match a filter."""
    wanted, identity = call.parameters, call.identity
    kind, rate = wanted.Kind, wanted.MaxNumberOfMessagesPerSecond
    if kind not in KINDS:
        raise checks.invalid(kind, "Kind", f"Must be one of {', '.join(KINDS)}.")
    checks.moves_per_second(rate)
    given = (wanted.BodyContains, wanted.AttributeName, wanted.AttributeValue)
    if any(text is not None and (not text or "\0" in text or len(text) > _TEXT) for text in given):
        raise errors.InvalidParameterValueException(
            f"A text of a filter has 1 to {_TEXT} characters, and no NUL."
        )
    source = checks.queue_name(wanted.QueueUrl, identity).arn
    target = wanted.DestinationQueueUrl
    destination = None if target is None else checks.queue_name(target, identity).arn
    task = await node.moves.start_matching(
        kind, source, destination, rate=rate, matching=MessageFilter(*given), deadline=call.deadline
    )
    return {"TaskHandle": moves.handle_of(task, source)}


async def list_message_tasks(
    node: Node, call: Call[extensions.ListMessageTasks], queue: Queue
) -> dict[str, Any]:
    """List the newest tasks of a queue, redrives and those with a filter.

    Who may not peek at its messages is not shown what they were filtered by.
    """
    name = queue.name
    checks.tasks_listed(call.parameters.MaxResults)
    most = call.parameters.MaxResults or limits.MOVE_TASKS_LISTED
    tasks = await node.moves.list(name.arn, most, call.deadline, every=True)
    policy = queue.attributes.policy
    may_peek = access.allows(node, call, "PeekMessages", name, policy)
    return {"Tasks": [_shown_whole(task, name.arn, may_peek=may_peek) for task in tasks]}


def _shown_whole(task: MoveTask, source: str, *, may_peek: bool) -> dict[str, Any]:
    shown = {"Kind": task.kind} | moves.shown_task(task, source)
    if task.kind == "redrive":
        return shown
    shown["ApproximateNumberOfMessagesPassed"] = task.passed
    texts = (task.body_contains, task.attribute_name, task.attribute_value)
    names = ("BodyContains", "AttributeName", "AttributeValue")
    filters = {name: text for name, text in zip(names, texts, strict=True) if text is not None}
    return shown | (filters if may_peek else {})
