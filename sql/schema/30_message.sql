-- One row for each unsettled message of standard and FIFO queues. A message is in flight while visible_at is in the future
-- and it has been received.
create table skipmq.message (
  id bigint not null,
  visible_at timestamptz not null,
  sent_at timestamptz not null,
  -- The retention period starts here: at the send, at the delivery of a message that was delayed by more than 900 seconds, or at
  -- the move to a FIFO dead-letter queue.
  enqueued_at timestamptz not null,
  first_received_at timestamptz,
  queue_id bigint not null,
  -- The fencing token: incremented by each receive and never reset, so that an old receipt cannot match. From the 2147483646th
  -- receive on it stays, so that the receipts of later receives are alike.
  receive_count integer not null default 0,
  -- The receive count that users see is receive_count - receive_base.
  receive_base integer not null default 0,
  -- That count at the move to this queue by a redrive policy, whose limit counts the receives since; null: it was 0.
  arrival_count integer,
  -- In a standard queue: 0 for messages never received, 1 for those of noisy tenants, 2 for received ones. In the lanes of a
  -- limited queue: 10 for messages never received, 20 for received ones and 30 for those of noisy tenants, plus the priority, 0 to 9.
  shard smallint not null default 0,
  group_no bigint,
  sequence_number bigint,
  message_id uuid not null,
  group_id text,
  deduplication_id text,
  sender text,
  trace_header text,
  -- The ARN of the queue whose redrive policy moved the message to this one.
  dead_letter_source text,
  -- Message attributes as JSON text, {"name": {"DataType": …, "StringValue"|"BinaryValue": …}}.
  attributes text,
  body text not null,
  -- The last failures that consumers left with it, of add_failure; null: none.
  failures jsonb,
  -- In the order of arrival, by which oldest_message reads a standard queue.
  constraint message_pkey primary key (queue_id, id)
) with (
  fillfactor = 80,
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 50000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 200000,
  -- An analysis reads as many pages of a large table, whatever has changed.
  autovacuum_analyze_scale_factor = 0.1,
  autovacuum_analyze_threshold = 100000,
  autovacuum_vacuum_cost_delay = 0
);
-- For receive_messages, count_messages, expire_messages and clear_retired on standard queues.
create index message_visible on skipmq.message (queue_id, shard, visible_at) where group_no is null;
-- For walk_lanes: the groups of a limited queue. Messages of other queues have no entry.
create index message_lane on skipmq.message (queue_id, shard, group_id, visible_at) where shard >= 10;
-- For claim_fifo_messages and other functions for FIFO queues: the messages of a group in order.
create index message_group_order on skipmq.message (queue_id, group_no, sequence_number)
  where group_no is not null;
-- For expire_fifo, count_messages and peek_messages: the messages of FIFO queues in the order of arrival.
-- By time rather than by number, since the planner might use an order by number for the order within a group.
create index message_enqueued on skipmq.message (queue_id, enqueued_at) where group_no is not null;

-- Ballast: a plan made on an empty table would be a sequential scan, which a session keeps when the table has filled.
-- No queue has the id 0.
insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, message_id, body)
select -n, 'infinity', 'epoch', 'infinity', 0, '00000000-0000-0000-0000-000000000000', ''
from generate_series(1, 10000) n;
analyze skipmq.message;

-- Bodies are compressed with lz4 where the server has it, otherwise not at all: pglz costs more time than its savings are
-- worth.
do $$
begin
  if (select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression') then
    alter table skipmq.message alter column body set compression lz4;
  else
    alter table skipmq.message alter column body set storage external;
  end if;
end $$;
