"""The tables of all actions, SQS's and SkipMQ's own; each runs a coroutine named after it."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

import msgspec

from skipmq import errors
from skipmq.actions import (
    access,
    attributes,
    audit,
    batches,
    database,
    dead_letters,
    inspection,
    messages,
    moves,
    overview,
    permissions,
    queues,
    receive,
    redrive,
    tags,
    tasks,
    timeline,
    watching,
)
from skipmq.model import Queue, QueueName
from skipmq.node import Node
from skipmq.protocol import Call


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action: its coroutine, the permissions that it needs, and how its calls are run."""

    # Called with the node and the call, and with `on_queue` also with the queue of QueueUrl.
    run: Callable[..., Awaitable[dict[str, Any] | None]]
    needs: access.Needs
    on_queue: bool = False
    # Looks the queue up without the cache.
    is_fresh: bool = False
    # Is recorded in the audit log, with its parameters.
    is_change: bool = False
    # May be called by an unsigned GET.
    is_read: bool = False
    # Seconds to wait for the database, if fewer than other requests have.
    seconds: float | None = None


def _on(
    run: Callable[..., Awaitable[dict[str, Any] | None]], *needs: str, **options: Any
) -> Action:
    return Action(run=run, needs=access.queue_needs(*needs), on_queue=True, **options)


ACTIONS: Mapping[str, Action] = {
    "AddPermission": _on(
        permissions.add_permission, "AddPermission", is_fresh=True, is_change=True
    ),
    "CancelMessageMoveTask": Action(
        run=moves.cancel_message_move_task, needs=access.move_end_needs, is_change=True
    ),
    "ChangeMessageVisibility": _on(messages.change_message_visibility, "ChangeMessageVisibility"),
    "ChangeMessageVisibilityBatch": _on(
        batches.change_message_visibility_batch, "ChangeMessageVisibility"
    ),
    "CreateQueue": Action(run=queues.create_queue, needs=access.new_queue_needs, is_change=True),
    "DeleteMessage": _on(messages.delete_message, "DeleteMessage"),
    "DeleteMessageBatch": _on(batches.delete_message_batch, "DeleteMessage"),
    "DeleteQueue": _on(queues.delete_queue, "DeleteQueue", is_change=True),
    "GetQueueAttributes": _on(
        attributes.get_queue_attributes, "GetQueueAttributes", is_fresh=True, is_read=True
    ),
    "GetQueueUrl": Action(run=queues.get_queue_url, needs=access.named_queue_needs, is_read=True),
    "ListDeadLetterSourceQueues": _on(
        redrive.list_dead_letter_source_queues, "ListDeadLetterSourceQueues", is_read=True
    ),
    "ListMessageMoveTasks": Action(
        run=moves.list_message_move_tasks, needs=access.move_list_needs, is_read=True
    ),
    "ListQueues": Action(
        run=queues.list_queues, needs=access.account_needs("ListQueues"), is_read=True
    ),
    "ListQueueTags": _on(tags.list_queue_tags, "ListQueueTags", is_fresh=True, is_read=True),
    "PurgeQueue": _on(queues.purge_queue, "PurgeQueue", is_change=True),
    "ReceiveMessage": _on(receive.receive_message, "ReceiveMessage"),
    "RemovePermission": _on(
        permissions.remove_permission, "RemovePermission", is_fresh=True, is_change=True
    ),
    "SendMessage": _on(messages.send_message, "SendMessage"),
    "SendMessageBatch": _on(batches.send_message_batch, "SendMessage"),
    "SetQueueAttributes": _on(
        attributes.set_queue_attributes, "SetQueueAttributes", is_change=True
    ),
    "StartMessageMoveTask": Action(
        run=moves.start_message_move_task, needs=access.move_start_needs, is_change=True
    ),
    "TagQueue": _on(tags.tag_queue, "TagQueue", is_change=True),
    "UntagQueue": _on(tags.untag_queue, "UntagQueue", is_change=True),
}

EXTENSIONS: Mapping[str, Action] = {
    "CopyMessages": Action(
        run=inspection.copy_messages,
        needs=access.picked_needs("PeekMessages"),
        on_queue=True,
        is_change=True,
    ),
    "DeletePickedMessages": _on(
        inspection.delete_picked_messages, "ReceiveMessage", "DeleteMessage", is_change=True
    ),
    "DescribeDatabase": Action(
        run=database.describe_database, needs=access.account_needs("DescribeDatabase"), is_read=True
    ),
    "GetMessageTimeline": _on(
        timeline.get_message_timeline, "PeekMessages", is_read=True, seconds=5.0
    ),
    "GetQueueActivity": _on(
        watching.get_queue_activity, "GetQueueAttributes", is_read=True, seconds=2.0
    ),
    "ListAuditRecords": Action(
        run=audit.list_audit_records, needs=access.account_needs("ListAuditRecords"), is_read=True
    ),
    "ListDeadLetterQueues": Action(
        run=dead_letters.list_dead_letter_queues,
        needs=access.account_needs("ListQueues"),
        is_read=True,
    ),
    "ListMessageTasks": _on(tasks.list_message_tasks, "ListMessageMoveTasks", is_read=True),
    "ListQueueStatistics": Action(
        run=overview.list_queue_statistics, needs=access.account_needs("ListQueues"), is_read=True
    ),
    "MoveMessages": Action(
        run=inspection.move_messages,
        needs=access.picked_needs("ReceiveMessage", "DeleteMessage"),
        on_queue=True,
        is_change=True,
    ),
    "PeekMessages": _on(inspection.peek_messages, "PeekMessages", is_read=True),
    "PeekNewestMessages": _on(
        watching.peek_newest_messages, "PeekMessages", is_read=True, seconds=2.0
    ),
    "StartMessageTask": Action(
        run=tasks.start_message_task, needs=access.task_start_needs, is_change=True
    ),
}

EVERY: Mapping[str, Action] = {**ACTIONS, **EXTENSIONS}


def queue_name(call: Call) -> QueueName | None:
    """Return the queue that a call names, or None; also for a call that was refused."""
    needs = call.needs
    if needs is None:
        with suppress(errors.SqsError):
            needs = EVERY[call.action].needs(call)
    return needs[0].queue if needs else None


async def perform(
    node: Node, call: Call, admit: Callable[[Call], None] | None = None
) -> dict[str, Any] | None:
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
        queue = None
    return await node.queues.on(name, call.deadline, partial(action.run, node, call), queue)
