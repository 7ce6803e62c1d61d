"""SkipMQ's own actions, on the AWS JSON wire; each runs a coroutine named after it."""

from collections.abc import Mapping

from skipmq.actions import access
from skipmq.actions.action import Action, by_name, on_account, on_queue
from skipmq.actions.skipmq import (
    access_keys,
    audit,
    consumers,
    database,
    failures,
    groups,
    inspection,
    overview,
    schedules,
    tasks,
    timeline,
    troubles,
)

EXTENSIONS: Mapping[str, Action] = by_name(
    on_queue(
        inspection.copy_messages, "PeekMessages", needs=access.destination_needs, is_change=True
    ),
    on_queue(schedules.create_schedule, "CreateSchedule", is_change=True),
    on_queue(failures.dead_letter_message, "ChangeMessageVisibility", "DeleteMessage"),
    on_queue(inspection.delete_picked_messages, "ReceiveMessage", "DeleteMessage", is_change=True),
    on_account(schedules.delete_schedule, "DeleteSchedule", is_change=True),
    on_account(database.describe_database, "DescribeDatabase", is_read=True),
    on_account(schedules.describe_schedule, "ListQueues", is_read=True),
    on_account(database.end_session, "EndSession", is_change=True),
    on_queue(failures.fail_message, "ChangeMessageVisibility"),
    on_account(access_keys.get_access_key_rights, "ListAccessKeys", is_read=True),
    on_queue(timeline.get_message_timeline, "PeekMessages", is_read=True, seconds=5.0),
    on_account(troubles.get_overview, "ListQueues", is_read=True),
    on_queue(overview.get_queue_activity, "GetQueueAttributes", is_read=True, seconds=2.0),
    on_account(access_keys.list_access_keys, "ListAccessKeys", is_read=True),
    on_account(audit.list_audit_records, "ListAuditRecords", is_read=True),
    on_queue(consumers.list_consumers, "PeekMessages", is_read=True, seconds=5.0),
    on_account(failures.list_dead_letter_queues, "ListQueues", is_read=True),
    on_queue(failures.list_message_failures, "PeekMessages", is_read=True, seconds=2.0),
    on_queue(groups.list_message_groups, "PeekMessages", is_read=True, seconds=5.0),
    on_queue(tasks.list_message_tasks, "ListMessageMoveTasks", is_read=True),
    on_account(consumers.list_nodes, "DescribeDatabase", is_read=True, seconds=5.0),
    on_queue(groups.list_paused_message_groups, "PeekMessages", is_read=True),
    on_account(overview.list_queue_statistics, "ListQueues", is_read=True),
    on_account(schedules.list_schedules, "ListQueues", is_read=True),
    on_account(database.list_sessions, "DescribeDatabase", is_read=True, seconds=5.0),
    on_account(tasks.list_tasks, "ListMessageMoveTasks", is_read=True),
    on_queue(
        inspection.move_messages,
        "ReceiveMessage",
        "DeleteMessage",
        needs=access.destination_needs,
        is_change=True,
    ),
    on_queue(groups.pause_message_group, "PauseMessageGroup", is_change=True),
    on_queue(groups.pause_queue, "PauseQueue", is_change=True),
    on_account(schedules.pause_schedule, "PauseSchedule", is_change=True),
    on_queue(inspection.peek_messages, "PeekMessages", is_read=True),
    on_queue(inspection.peek_newest_messages, "PeekMessages", is_read=True, seconds=2.0),
    on_queue(groups.release_messages, "ReleaseMessages", is_change=True),
    on_queue(groups.resume_message_group, "PauseMessageGroup", is_change=True),
    on_account(schedules.run_schedule, "RunSchedule", is_change=True),
    on_queue(tasks.search_messages, "PeekMessages", is_read=True, seconds=5.0),
    Action(run=tasks.start_message_task, needs=access.task_start_needs, is_change=True),
)
