-- The message table: one row for each message that waits, is delayed or is in flight, in standard and
-- FIFO queues alike. A message is in flight while visible_at lies ahead and it has been received.
create table skipmq.message (
  id bigint not null,
  visible_at timestamptz not null,
  sent_at timestamptz not null,
  -- Retention counts from here: the time of the send, or of the move to a FIFO dead-letter queue.
  enqueued_at timestamptz not null,
  first_received_at timestamptz,
  queue_id integer not null,
  -- The fencing token: grows with each receive and is never reset, so that an old receipt can never match.
  receive_count integer not null default 0,
  -- What users see is receive_count - receive_base.
  receive_base integer not null default 0,
  -- Of a standard queue: 0 for what was never received, 1 for a tenant that is noisy, 2 for what was received.
  shard smallint not null default 0,
  group_no bigint,
  sequence_number bigint,
  message_id uuid not null,
  group_id text,
  deduplication_id text,
  sender text,
  trace_header text,
  -- The ARN of the queue whose policy moved the message to this one.
  dead_letter_source text,
  -- Message attributes as JSON text, {"name": {"DataType": …, "StringValue"|"BinaryValue": …}}.
  attributes text,
  body text not null,
  constraint message_pkey primary key (id)
) with (
  fillfactor = 80,
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 50000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 200000,
  autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 100000,
  autovacuum_vacuum_cost_delay = 0
);
-- For receive_messages, count_messages, expire_messages and clear_retired on standard queues.
create index message_visible on skipmq.message (queue_id, shard, visible_at) where group_no is null;
-- For claim_fifo_messages and its kind: the messages of a group in order.
create index message_group_order on skipmq.message (queue_id, group_no, sequence_number)
  where group_no is not null;
-- For expire_fifo, count_messages and peek_messages: those of a FIFO queue in the order of their arrival.
-- By time, not by number: the planner might take an order by number for the order within a group.
create index message_enqueued on skipmq.message (queue_id, enqueued_at) where group_no is not null;

-- Ballast: the planner never sees an empty table, whose plans would be sequential scans that stay after
-- it has filled. No queue has the number 0.
insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, message_id, body)
select -n, 'infinity', 'epoch', 'infinity', 0, '00000000-0000-0000-0000-000000000000', ''
from generate_series(1, 10000) n;
analyze skipmq.message;

-- Bodies are compressed where the server has lz4 and stored as they are where it has not: pglz costs
-- more time than it saves space.
do $$
begin
  if (select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression') then
    alter table skipmq.message alter column body set compression lz4;
  else
    alter table skipmq.message alter column body set storage external;
  end if;
end $$;
