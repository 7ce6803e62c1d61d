-- One row for each group of a FIFO queue that has messages. It carries the group's visibility, so that a
-- receive probes one index and never reads groups that have nothing to give. Whoever changes a message
-- of a group, other than adding one, holds the lock of its row.
create table skipmq.message_group (
  queue_id integer not null,
  -- hashtextextended(group_id, queue_id): groups that collide share their order, which harms nothing.
  group_no bigint not null,
  -- Never later than the moment at which the group's first message can be given.
  available_at timestamptz not null,
  -- Not greater than the first message's: where a scan of the group starts.
  first_number bigint not null,
  constraint message_group_pkey primary key (queue_id, group_no)
) with (
  fillfactor = 70,
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- For claim_fifo_messages: the group that has waited longest.
create index message_group_available on skipmq.message_group (queue_id, available_at);
-- Ballast, as in the message table.
insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
select 0, n, 'infinity', 0 from generate_series(1, 10000) n;
analyze skipmq.message_group;

-- The order of FIFO messages, taken under the lock of their group. No block of numbers is kept by a
-- backend: they would be handed out late.
create sequence skipmq.sequence_number_seq as bigint cache 1;

-- What was sent to a FIFO queue in the last five minutes, with the answer to repeat. It outlives the
-- message, but no purge: it belongs to the generation.
create table skipmq.deduplication (
  queue_id integer not null,
  -- The first half of the SHA-256 of the deduplication id, with the group where that is the scope.
  key uuid not null,
  expires_at timestamptz not null,
  sequence_number bigint not null,
  message_id uuid not null,
  constraint deduplication_pkey primary key (queue_id, key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);
-- For expire_deduplication.
create index deduplication_expires on skipmq.deduplication (expires_at);

-- What a receive with a ReceiveRequestAttemptId was given, for five minutes.
create table skipmq.receive_attempt (
  queue_id integer not null,
  attempt_id text collate "C" not null,
  received_at timestamptz not null,
  -- Until when the messages were hidden by it: another value in a row shows that somebody changed it.
  hidden_until timestamptz not null,
  ids bigint[] not null,
  receive_counts integer[] not null,
  constraint receive_attempt_pkey primary key (queue_id, attempt_id)
);
-- For expire_deduplication.
create index receive_attempt_received on skipmq.receive_attempt (received_at);
