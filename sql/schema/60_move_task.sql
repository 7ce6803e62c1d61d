-- Moves of messages of a dead-letter queue to their source queues or to another queue (kind redrive), and moves, copies and
-- deletions of the messages of a queue that match a filter. Any node continues a task, a batch at a time, so that a task
-- survives the node that worked on it.
create table skipmq.move_task (
  task_id uuid primary key,
  source_arn text not null,
  -- Null: each message moves to the queue that it came from.
  destination_arn text,
  -- Without a destination: the ARNs of the source queues that messages may move to; null: all.
  origins text[],
  status text not null check (status in ('RUNNING', 'COMPLETED', 'CANCELLING', 'CANCELLED', 'FAILED')),
  messages_per_second integer check (messages_per_second between 1 and 500),
  to_move bigint not null,
  moved bigint not null default 0,
  failure_reason text,
  started_at timestamptz not null,
  -- The time up to which the rate is used up.
  paid_until timestamptz not null,
  kind text not null default 'redrive' check (kind in ('redrive', 'move', 'copy', 'delete')),
  -- The filter; null matches all: a text in the body, the name of a message attribute, its value.
  body_contains text,
  attribute_name text,
  attribute_value text,
  -- Its further members (matches_filter), and until: the time by which a message was visible.
  filter jsonb,
  -- The number of messages examined, and the place of the last one (match_messages).
  passed bigint not null default 0,
  place_at timestamptz,
  place_number bigint
);
-- For start_move_task and start_message_task: one active task for a source; for advance_move_tasks.
create unique index move_task_active on skipmq.move_task (source_arn)
  where status in ('RUNNING', 'CANCELLING');
-- For list_move_tasks.
create index move_task_source on skipmq.move_task (source_arn, started_at desc);
-- For account_tasks.
create index move_task_started on skipmq.move_task (started_at desc);
