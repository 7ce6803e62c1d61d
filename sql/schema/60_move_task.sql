-- Moves of messages of a dead-letter queue back to where they came from, or elsewhere. Any node continues a task,
-- a chunk at a time, so that it survives the death of the node that worked on it.
create table skipmq.move_task (
  task_id uuid primary key,
  source_arn text not null,
  -- Null: each message goes back to the queue that it came from.
  destination_arn text,
  status text not null check (status in ('RUNNING', 'COMPLETED', 'CANCELLING', 'CANCELLED', 'FAILED')),
  messages_per_second integer check (messages_per_second between 1 and 500),
  to_move bigint not null,
  moved bigint not null default 0,
  failure_reason text,
  started_at timestamptz not null,
  -- Up to when the rate has been used up.
  paid_until timestamptz not null
);
-- For start_move_task: one active task for a source; for advance_move_tasks.
create unique index move_task_active on skipmq.move_task (source_arn)
  where status in ('RUNNING', 'CANCELLING');
-- For list_move_tasks.
create index move_task_source on skipmq.move_task (source_arn, started_at desc);
