-- One row for each group of a FIFO queue that has messages. It has the group's visibility, so that a receive probes one
-- index and reads no group without a visible message. A transaction that changes a message of a group, other than by
-- adding one, locks the group's row first.
create table skipmq.message_group (
  queue_id bigint not null,
  -- hashtextextended(group_id, queue_id): groups with the same hash share their order, which is harmless.
  group_no bigint not null,
  -- At the latest the time at which the group's first message becomes visible.
  available_at timestamptz not null,
  -- At most the first message's number: where a scan of the group starts.
  first_number bigint not null,
  -- The last receive from the group: when, and by whom, as claim_fifo_messages says.
  received_at timestamptz,
  receiver text,
  constraint message_group_pkey primary key (queue_id, group_no)
) with (
  fillfactor = 70,
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- For claim_fifo_messages: the group that has been available longest.
create index message_group_available on skipmq.message_group (queue_id, available_at);
-- Ballast, as in the message table.
insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
select 0, n, 'infinity', 0 from generate_series(1, 10000) n;
analyze skipmq.message_group;

-- The order of FIFO messages, taken under the lock of their group. No backend caches a block of numbers, which would then
-- be used late.
create sequence skipmq.sequence_number_seq as bigint cache 1;

-- The messages sent to a FIFO queue in the last five minutes, with the answers to repeat. A row outlives its message, but
-- not a purge, since it belongs to the generation.
create table skipmq.deduplication (
  queue_id bigint not null,
  -- The first half of the SHA-256 of the deduplication id, and of the group where that is the scope.
  key uuid not null,
  expires_at timestamptz not null,
  sequence_number bigint not null,
  message_id uuid not null,
  constraint deduplication_pkey primary key (queue_id, key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);
-- For expire_deduplication.
create index deduplication_expires on skipmq.deduplication (expires_at);

-- The results of receives with a ReceiveRequestAttemptId, for five minutes.
create table skipmq.receive_attempt (
  queue_id bigint not null,
  attempt_id text collate "C" not null,
  received_at timestamptz not null,
  -- The visible_at that it set: a message with another one has been changed since.
  hidden_until timestamptz not null,
  ids bigint[] not null,
  receive_counts integer[] not null,
  constraint receive_attempt_pkey primary key (queue_id, attempt_id)
);
-- For expire_deduplication.
create index receive_attempt_received on skipmq.receive_attempt (received_at);
