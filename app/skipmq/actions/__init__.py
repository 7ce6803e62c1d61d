"""One function for each SQS action, named after it. Here is every one of them."""

from collections.abc import Callable
from typing import Any

from skipmq.actions import attributes, batches, messages, queues, unsupported
from skipmq.node import Node
from skipmq.protocol import Call

Action = Callable[[Node, Call], dict[str, Any] | None]

ACTIONS: dict[str, Action] = {
    "AddPermission": unsupported.refuse,
    "CancelMessageMoveTask": unsupported.refuse,
    "ChangeMessageVisibility": messages.change_message_visibility,
    "ChangeMessageVisibilityBatch": batches.change_message_visibility_batch,
    "CreateQueue": queues.create_queue,
    "DeleteMessage": messages.delete_message,
    "DeleteMessageBatch": batches.delete_message_batch,
    "DeleteQueue": queues.delete_queue,
    "GetQueueAttributes": attributes.get_queue_attributes,
    "GetQueueUrl": queues.get_queue_url,
    "ListDeadLetterSourceQueues": unsupported.refuse,
    "ListMessageMoveTasks": unsupported.refuse,
    "ListQueues": queues.list_queues,
    "ListQueueTags": unsupported.refuse,
    "PurgeQueue": queues.purge_queue,
    "ReceiveMessage": messages.receive_message,
    "RemovePermission": unsupported.refuse,
    "SendMessage": messages.send_message,
    "SendMessageBatch": batches.send_message_batch,
    "SetQueueAttributes": attributes.set_queue_attributes,
    "StartMessageMoveTask": unsupported.refuse,
    "TagQueue": unsupported.refuse,
    "UntagQueue": unsupported.refuse,
}
