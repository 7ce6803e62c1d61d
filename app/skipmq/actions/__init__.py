"""One coroutine for each action, named after it. Here is every one, of SQS and beyond."""

from collections.abc import Awaitable, Callable
from typing import Any

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
from skipmq.node import Node
from skipmq.protocol import Call

Action = Callable[[Node, Call], Awaitable[dict[str, Any] | None]]

ACTIONS: dict[str, Action] = {
    "AddPermission": permissions.add_permission,
    "CancelMessageMoveTask": moves.cancel_message_move_task,
    "ChangeMessageVisibility": messages.change_message_visibility,
    "ChangeMessageVisibilityBatch": batches.change_message_visibility_batch,
    "CreateQueue": queues.create_queue,
    "DeleteMessage": messages.delete_message,
    "DeleteMessageBatch": batches.delete_message_batch,
    "DeleteQueue": queues.delete_queue,
    "GetQueueAttributes": attributes.get_queue_attributes,
    "GetQueueUrl": queues.get_queue_url,
    "ListDeadLetterSourceQueues": redrive.list_dead_letter_source_queues,
    "ListMessageMoveTasks": moves.list_message_move_tasks,
    "ListQueues": queues.list_queues,
    "ListQueueTags": tags.list_queue_tags,
    "PurgeQueue": queues.purge_queue,
    "ReceiveMessage": receive.receive_message,
    "RemovePermission": permissions.remove_permission,
    "SendMessage": messages.send_message,
    "SendMessageBatch": batches.send_message_batch,
    "SetQueueAttributes": attributes.set_queue_attributes,
    "StartMessageMoveTask": moves.start_message_move_task,
    "TagQueue": tags.tag_queue,
    "UntagQueue": tags.untag_queue,
}

EXTENSIONS: dict[str, Action] = {
    "CopyMessages": inspection.copy_messages,
    "DeletePickedMessages": inspection.delete_picked_messages,
    "DescribeDatabase": database.describe_database,
    "GetMessageTimeline": timeline.get_message_timeline,
    "GetQueueActivity": watching.get_queue_activity,
    "ListAuditRecords": audit.list_audit_records,
    "ListDeadLetterQueues": dead_letters.list_dead_letter_queues,
    "ListMessageTasks": tasks.list_message_tasks,
    "ListQueueStatistics": overview.list_queue_statistics,
    "MoveMessages": inspection.move_messages,
    "PeekMessages": inspection.peek_messages,
    "PeekNewestMessages": watching.peek_newest_messages,
    "StartMessageTask": tasks.start_message_task,
}

EVERY: dict[str, Action] = ACTIONS | EXTENSIONS


async def perform(node: Node, call: Call, admit: Callable[[Call], None]) -> dict[str, Any] | None:
    """Run the action of a call, if its caller may do that and `admit` lets it; return its result.

    Raises errors.AccessDenied, and what `admit` and the action raise.
    """
    if node.keys is not None:
        await access.check(node, call)
    admit(call)
    return await EVERY[call.action](node, call)
