"""The actions of SQS; each runs a coroutine named after it."""

from collections.abc import Mapping

from skipmq.actions import access
from skipmq.actions.action import Action, by_name, on_account, on_queue
from skipmq.actions.sqs import (
    attributes,
    batches,
    messages,
    permissions,
    queues,
    receive,
    redrive,
)

ACTIONS: Mapping[str, Action] = by_name(
    on_queue(permissions.add_permission, "AddPermission", is_fresh=True, is_change=True),
    Action(run=redrive.cancel_message_move_task, needs=redrive.cancel_needs, is_change=True),
    on_queue(messages.change_message_visibility, "ChangeMessageVisibility"),
    on_queue(batches.change_message_visibility_batch, "ChangeMessageVisibility"),
    Action(run=queues.create_queue, needs=access.new_queue_needs, is_change=True),
    on_queue(messages.delete_message, "DeleteMessage"),
    on_queue(batches.delete_message_batch, "DeleteMessage"),
    on_queue(queues.delete_queue, "DeleteQueue", is_change=True),
    on_queue(attributes.get_queue_attributes, "GetQueueAttributes", is_fresh=True, is_read=True),
    Action(run=queues.get_queue_url, needs=access.named_queue_needs, is_read=True),
    on_queue(redrive.list_dead_letter_source_queues, "ListDeadLetterSourceQueues", is_read=True),
    Action(run=redrive.list_message_move_tasks, needs=access.move_list_needs, is_read=True),
    on_account(queues.list_queues, "ListQueues", is_read=True),
    on_queue(queues.list_queue_tags, "ListQueueTags", is_fresh=True, is_read=True),
    on_queue(queues.purge_queue, "PurgeQueue", is_change=True),
    on_queue(receive.receive_message, "ReceiveMessage"),
    on_queue(permissions.remove_permission, "RemovePermission", is_fresh=True, is_change=True),
    on_queue(messages.send_message, "SendMessage"),
    on_queue(batches.send_message_batch, "SendMessage"),
    on_queue(attributes.set_queue_attributes, "SetQueueAttributes", is_change=True),
    Action(run=redrive.start_message_move_task, needs=access.move_start_needs, is_change=True),
    on_queue(queues.tag_queue, "TagQueue", is_change=True),
    on_queue(queues.untag_queue, "UntagQueue", is_change=True),
)
