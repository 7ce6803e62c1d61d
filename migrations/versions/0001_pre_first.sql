set local check_function_bodies = off;
-- The one schema of SkipMQ. Everything below lives in it; nothing outside is touched.
create schema if not exists skipmq;
comment on schema skipmq is 'SkipMQ: an Amazon-SQS-compatible message broker';

-- Sequences of messages: a standard queue promises no order, so that a backend may take ids in blocks.
create sequence skipmq.message_id_seq as bigint cache 64;
create sequence skipmq.queue_id_seq as integer;
-- A queue as its owner sees it. queue_id names its present generation: purge and delete give the name
-- a new one, which empties the queue in one row change; the janitor clears the rows of the old one.
create table skipmq.queue (
  account text collate "C" not null check (account ~ '^[0-9]{12}$'),
  region text collate "C" not null check (region ~ '^[A-Za-z0-9-]{1,64}$'),
  name text collate "C" not null check (name ~ '^[A-Za-z0-9_-]{1,80}$' or name ~ '^[A-Za-z0-9_-]{1,75}\.fifo$'),
  queue_id integer not null,
  fifo boolean not null default false check (fifo = (name like '%.fifo')),
  visibility_timeout integer not null default 30 check (visibility_timeout between 0 and 43200),
  delay_seconds integer not null default 0 check (delay_seconds between 0 and 900),
  maximum_message_size integer not null default 1048576
    check (maximum_message_size between 1024 and 1048576),
  message_retention_period integer not null default 345600
    check (message_retention_period between 60 and 1209600),
  receive_message_wait_time_seconds integer not null default 0
    check (receive_message_wait_time_seconds between 0 and 20),
  policy text not null default '' check (octet_length(policy) <= 8192),
  -- As the user wrote them; what receives and checks need of them stands in the columns below.
  redrive_policy text not null default '' check (length(redrive_policy) <= 1024),
  redrive_allow_policy text not null default '' check (length(redrive_allow_policy) <= 4096),
  dead_letter_account text collate "C",
  dead_letter_name text collate "C",
  max_receive_count integer check (max_receive_count between 1 and 1000),
  kms_master_key_id text not null default '' check (length(kms_master_key_id) <= 2048),
  kms_data_key_reuse_period_seconds integer not null default 300
    check (kms_data_key_reuse_period_seconds between 60 and 86400),
  sqs_managed_sse_enabled boolean not null default true,
  history_mode text not null default 'metadata' check (history_mode in ('off', 'metadata', 'full')),
  -- At most 50 texts of 256 characters, under keys of 1 to 128 (a repetition in jsonpath has at most 255).
  tags jsonb not null default '{}' check (
    jsonb_typeof(tags) = 'object' and jsonb_array_length(jsonb_path_query_array(tags, '$.keyvalue()')) <= 50
    and not tags @? '$.keyvalue() ? (@.key like_regex "^(.{129}|$)" flag "s")'
    and not tags @? '$.* ? (@.type() != "string" || @ like_regex "^.{129}.{128}" flag "s")'),
  created_at timestamptz not null,
  modified_at timestamptz not null,
  purged_at timestamptz,
  content_based_deduplication boolean not null default false,
  deduplication_scope text not null default 'queue' check (deduplication_scope in ('queue', 'messageGroup')),
  fifo_throughput_limit text not null default 'perQueue'
    check (fifo_throughput_limit in ('perQueue', 'perMessageGroupId')),
  -- Whether a message with a group was ever sent to it: the groups of a standard queue are tenants.
  tenants boolean not null default false,
  -- How many other servers a send waits for: none, one, the majority of all servers, or all.
  replication_mode text not null default 'any' check (replication_mode in ('none', 'any', 'majority', 'all')),
  primary key (account, region, name),
  check (num_nulls(dead_letter_account, dead_letter_name, max_receive_count) in (0, 3)),
  constraint queue_throughput_scope check (fifo_throughput_limit = 'perQueue' or deduplication_scope = 'messageGroup')
);
-- For dead_letter_sources.
create index queue_dead_letter on skipmq.queue (dead_letter_account, region, dead_letter_name, name)
  where dead_letter_name is not null;
-- For send_messages, receive_messages and their kind, which name a queue by its generation.
create unique index queue_id on skipmq.queue (queue_id);

-- Every generation that ever was: what the janitor still has to clear, and the name that a queue_id in
-- the history had. retired_as says why it ended.
create table skipmq.generation (
  queue_id integer primary key,
  account text collate "C" not null,
  region text collate "C" not null,
  name text collate "C" not null,
  history_mode text not null,
  created_at timestamptz not null,
  retired_at timestamptz,
  retired_as text check (retired_as in ('purged', 'deleted')),
  cleared_at timestamptz
);
-- For create_queue: was this name deleted a moment ago?
create index generation_name on skipmq.generation (account, region, name, retired_at);
-- For clear_retired: what is left to clear.
create index generation_to_clear on skipmq.generation (retired_at)
  where retired_at is not null and cleared_at is null;
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
-- One row for each settled message, by day of settlement (UTC). Written by the statement that settles;
-- read by analytics; dropped a day at a time. attributes and body only where the queue's mode is full.
create table skipmq.history (
  settled_at timestamptz not null,
  sent_at timestamptz not null,
  first_received_at timestamptz,
  -- The settling transaction, as a number that grows: the position of incremental readers.
  xid bigint not null,
  id bigint not null,
  queue_id integer not null,
  receive_count integer not null,
  body_bytes integer not null,
  attribute_bytes integer not null,
  message_id uuid not null,
  outcome text not null check (outcome in ('deleted', 'expired', 'purged', 'dead-lettered', 'redriven')),
  group_id text,
  deduplication_id text,
  sender text,
  trace_header text,
  attributes text,
  body text,
  -- The session that settled it, by its application_name; a node's is `skipmq PROCESS`.
  node text
) partition by range (settled_at);
-- For incremental readers, which take windows of xid.
create index history_xid on skipmq.history
  using brin (xid) with (pages_per_range = 32, autosummarize = on);
-- The days that an export has in whole: how many rows, all of transactions below to_xid; when the last export saw that
-- all their files are as it wrote them; whether the database has dropped them since.
create table skipmq.archived_day (
  day date primary key,
  rows bigint not null,
  to_xid bigint not null,
  archived_at timestamptz not null,
  dropped boolean not null default false
);
-- Catches what is settled should nobody have made the day's partition: nothing fails, nothing is lost.
create table skipmq.history_default partition of skipmq.history default;
-- What all nodes of one broker share.
create table skipmq.cluster (
  one boolean primary key default true check (one),
  created_at timestamptz not null default clock_timestamp(),
  -- Grows with every change of the access keys, and with each session that ends.
  access_key_version bigint not null default 0,
  -- Up to when fold_counts has added up everything.
  counted_to timestamptz not null default '-infinity'
);
insert into skipmq.cluster default values;

-- The keys that authenticate receipt handles: the newest one, and those that it replaced not long ago.
create table skipmq.receipt_key (
  made_at timestamptz primary key,
  key bytea not null
);
insert into skipmq.receipt_key (made_at, key)
select clock_timestamp(), decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');

-- What watch_disk fills to see whether the disk has room, and empties by going back: never a row that is seen.
create unlogged table skipmq.disk_probe (
  filler text not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1);
alter table skipmq.disk_probe alter column filler set storage plain;
-- The jobs of the janitor, for hold_job: which of many nodes does one holds its row.
create table skipmq.job (name text collate "C" primary key);
insert into skipmq.job (name)
values
  ('clear_retired'), ('create_history_partitions'), ('drop_history_partitions'), ('expire_audit_records'),
  ('expire_deduplication'), ('expire_messages'), ('fold_counts'), ('mark_noisy');
-- Moves of messages of a dead-letter queue back to where they came from, or elsewhere (kind redrive), and moves, copies
-- and deletions of those messages of a queue that match a filter. Any node continues a task, a chunk at a time, so that
-- it survives the death of the node that worked on it.
create table skipmq.move_task (
  task_id uuid primary key,
  source_arn text not null,
  -- Null: each message goes back to the queue that it came from.
  destination_arn text,
  -- Without a destination: the queues, by their ARNs, that messages may go back to; null: all.
  origins text[],
  status text not null check (status in ('RUNNING', 'COMPLETED', 'CANCELLING', 'CANCELLED', 'FAILED')),
  messages_per_second integer check (messages_per_second between 1 and 500),
  to_move bigint not null,
  moved bigint not null default 0,
  failure_reason text,
  started_at timestamptz not null,
  -- Up to when the rate has been used up.
  paid_until timestamptz not null,
  kind text not null default 'redrive' check (kind in ('redrive', 'move', 'copy', 'delete')),
  -- Of a filter, each where it is given: a text in the body, the name of a message attribute, its value.
  body_contains text,
  attribute_name text,
  attribute_value text,
  -- How many of to_move were looked through, and the place of the last one (match_messages).
  passed bigint not null default 0,
  place_at timestamptz,
  place_number bigint
);
-- For start_move_task and start_message_task: one active task for a source; for advance_move_tasks.
create unique index move_task_active on skipmq.move_task (source_arn)
  where status in ('RUNNING', 'CANCELLING');
-- For list_move_tasks.
create index move_task_source on skipmq.move_task (source_arn, started_at desc);
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
-- How many messages each generation has, in two parts: a sum, and what has changed since. The changes are
-- only ever added, by the transaction that makes them, so that nobody waits for a counter; fold_counts
-- adds them up. Sum and changes together are exact in every snapshot. So are the totals of what happened to
-- messages, but for receives, which nodes count and add once a second.
create table skipmq.queue_count (
  queue_id integer primary key,
  messages bigint not null,
  sent bigint not null default 0,
  bytes_sent bigint not null default 0,
  received bigint not null default 0,
  empty_receives bigint not null default 0,
  deleted bigint not null default 0,
  expired bigint not null default 0,
  dead_lettered bigint not null default 0,
  redriven bigint not null default 0,
  -- From the dead-letter policy or a move of another queue.
  moved_in bigint not null default 0
) with (fillfactor = 50);
create table skipmq.queue_delta (
  at timestamptz not null,
  queue_id integer not null,
  change integer not null,
  -- sent, moved-in, received, empty, or an outcome of the history.
  event text collate "C" not null,
  -- How many, where that is not the change.
  number integer,
  bytes bigint not null default 0
) with (
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- For fold_counts, count_messages: what is new, without what is dead and cannot be cleared yet.
create index queue_delta_at on skipmq.queue_delta (at);

-- What happened to the messages of each queue in each of the last minutes: a row where something did.
create table skipmq.queue_minute (
  minute timestamptz not null,
  queue_id integer not null,
  sent bigint not null,
  received bigint not null,
  deleted bigint not null,
  dead_lettered bigint not null,
  -- At the last change in it.
  messages bigint not null,
  primary key (queue_id, minute)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- For fold_counts, which clears what is old.
create index queue_minute_minute on skipmq.queue_minute using brin (minute) with (pages_per_range = 32);
-- Tenants (groups of a standard queue) that had too large a part of its messages in flight: theirs wait in
-- shard 1, behind those of the others.
create table skipmq.noisy_tenant (
  queue_id integer not null,
  group_id text collate "C" not null,
  until timestamptz not null,
  constraint noisy_tenant_pkey primary key (queue_id, group_id)
);
-- What `skipmq analytics replay` sends again, in the order of place. A row that is sent keeps only its ids, so
-- that a repetition of the replay sends nothing twice.
create table skipmq.replay_message (
  replay text not null,
  place bigint not null,
  message_id uuid not null,
  -- The settled message that it repeats.
  source_id uuid not null,
  target text not null,
  sent_at timestamptz,
  group_id text,
  trace_header text,
  attributes text,
  body text,
  primary key (replay, message_id)
);
-- For send_replay: what is still to send.
create index replay_message_unsent on skipmq.replay_message (replay, place) where sent_at is null;
-- Keys that may sign requests. The secret is encrypted (AES-256-GCM) under a master key that only nodes and
-- the command line have; the id of the key is authenticated with it.
create table skipmq.access_key (
  key_id text collate "C" primary key,
  account text collate "C" not null check (account ~ '^[0-9]{12}$'),
  -- The user that the key is of, as policies name it; null in temporary credentials.
  name text collate "C" check (name ~ '^[A-Za-z0-9+=,.@_-]{1,64}$'),
  -- Of temporary credentials: the key that they stand for, and the SHA-256 of their session token.
  parent text collate "C" references skipmq.access_key on delete cascade,
  token_digest bytea,
  -- A ready-made role with the queues that it is for, or a policy; null in temporary credentials.
  rights jsonb check (jsonb_typeof(rights) = 'object'),
  secret bytea not null,
  master_key_id text not null,
  enabled boolean not null default true,
  created_at timestamptz not null,
  expires_at timestamptz,
  last_used_at timestamptz,
  check ((parent is null) = (token_digest is null)),
  check ((parent is null) = (name is not null and rights is not null)),
  check (parent is null or expires_at is not null)
);
-- For the cascade.
create index access_key_parent on skipmq.access_key (parent);

-- Sessions of the console that were signed out of before their time was over: a copy of their cookie opens nothing.
create table skipmq.ended_session (
  -- The SHA-256 of what only the session's cookie has.
  digest bytea primary key check (octet_length(digest) = 32),
  until timestamptz not null
);
-- Which roles may send to which queues by SQL, and which may receive from them. A role is kept by its number: a new
-- role of the same name has none of its grants, and a dump has its name.
create table skipmq.queue_grant (
  role regrole not null,
  account text collate "C" not null check (account ~ '^[0-9]{12}$'),
  region text collate "C" not null,
  -- A name, or a pattern: * stands for any characters. Of these characters LIKE knows only _.
  queue text collate "C" not null
    check (queue ~ '^[A-Za-z0-9_*-]{1,80}$' or queue ~ '^[A-Za-z0-9_*-]{1,75}[.]fifo$'),
  may_send boolean not null,
  may_receive boolean not null,
  granted_at timestamptz not null,
  granted_by text not null,
  constraint queue_grant_pkey primary key (account, region, queue, role),
  check (may_send or may_receive)
);
-- For check_grant.
create index queue_grant_pattern on skipmq.queue_grant (account, region) where queue like '%*%';
-- Who did which management action on what, who was refused, and who signed in to the console: the audit log. Rows are
-- only ever added, by record_audit, and deleted when they are old, by expire_audit_records.
create table skipmq.audit_record (
  id bigint generated always as identity,
  recorded_at timestamptz not null,
  -- Null where nobody has proved who it is.
  account text collate "C",
  access_key text collate "C",
  -- Whether the access key has proved nothing: a request that was refused only names it.
  claimed boolean not null,
  user_arn text,
  -- Null where a request was refused before it was known what it asks for.
  action text collate "C",
  -- Its ARN. The queue may not exist, then or now.
  queue text collate "C",
  client text,
  door text not null check (door in ('api', 'console', 'command')),
  request_id text not null,
  -- `done`, or the code of an error.
  outcome text collate "C" not null,
  -- Of a management action; a text where it was too long, then its beginning.
  parameters jsonb,
  constraint audit_record_pkey primary key (id)
);
-- For audit_records.
create index audit_record_queue on skipmq.audit_record (queue, id) where queue is not null;
create index audit_record_access_key on skipmq.audit_record (access_key, id) where access_key is not null;
create index audit_record_action on skipmq.audit_record (action, id);
-- Does: gives a number that grows when the access keys or the ended sessions change, and the time, in seconds since 1970.
-- Called by: nodes that check signatures, every second.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.access_key_version() returns table (version bigint, now float8)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.access_key_version, extract(epoch from skipmq.clock())::float8 from skipmq.cluster c
$$;
-- Does: gives all access keys but temporary ones that expired a day ago, with the secrets as they are encrypted.
-- Called by: nodes that check signatures, when the keys have changed; the command line.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- A key that is `usable` may sign until it expires: it and the key that it stands for are enabled. It expires
-- with that one at the latest, and has its name and rights. The times are in seconds since 1970.
create function skipmq.access_keys()
returns table (
  key_id text, account text, name text, parent text, token_digest bytea, secret bytea, master_key_id text,
  usable boolean, created_at float8, expires_at float8, last_used_at float8, rights text
)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select k.key_id, k.account, coalesce(p.name, k.name), k.parent, k.token_digest, k.secret, k.master_key_id,
    k.enabled and coalesce(p.enabled, true),
    extract(epoch from k.created_at)::float8, extract(epoch from least(k.expires_at, p.expires_at))::float8,
    extract(epoch from k.last_used_at)::float8, coalesce(p.rights, k.rights)::text
  from skipmq.access_key k
  left join skipmq.access_key p on p.key_id = k.parent
  where k.parent is null or k.expires_at > skipmq.clock() - interval '1 day'
  order by k.created_at, k.key_id
$$;
-- Does: counts the synchronous standbys that have written everything up to p_position to disk; null stands for
--   everything that this server has written by now. Gives the position, to ask again.
-- Called by: nodes, for queues whose ReplicationMode asks for more standbys than the cluster's commits wait for.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.acknowledged(
  p_position text default null, out "position" text, out acknowledged integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_position pg_lsn := coalesce(p_position::pg_lsn, pg_current_wal_flush_lsn());
begin
  "position" := v_position::text;
  acknowledged := (
    select count(*) from pg_stat_replication r where r.sync_state <> 'async' and r.flush_lsn >= v_position);
end $$;
-- Does: adds an active task of a source to the table of tasks and, when the transaction commits, notifies the janitors;
--   gives its number. An active task of a deleted queue of its name fails.
-- Called by: start_move_task, start_message_task.
-- Locks, in order: row of the active task.
-- Raises: SQ008 when the source has an active task.
-- Relies on index: move_task_active, and those of count_messages.
create function skipmq.add_move_task(
  p_source integer, p_source_arn text, p_destination_arn text, p_messages_per_second integer,
  p_kind text default 'redrive', p_body_contains text default null, p_attribute_name text default null,
  p_attribute_value text default null
) returns uuid
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_task uuid;
begin
  update skipmq.move_task t
  set status = 'FAILED', failure_reason = 'AWS.SimpleQueueService.NonExistentQueue'
  where t.source_arn = p_source_arn and t.status in ('RUNNING', 'CANCELLING')
    and t.started_at < skipmq.queue_since(p_source_arn);
  insert into skipmq.move_task (
    task_id, source_arn, destination_arn, status, messages_per_second, to_move, started_at, paid_until,
    kind, body_contains, attribute_name, attribute_value)
  select
    gen_random_uuid(), p_source_arn, p_destination_arn, 'RUNNING', p_messages_per_second, c.visible, v_now, v_now,
    p_kind, p_body_contains, p_attribute_name, p_attribute_value
  from skipmq.count_messages(p_source) c
  on conflict (source_arn) where status in ('RUNNING', 'CANCELLING') do nothing
  returning task_id into v_task;
  if v_task is null then
    raise exception 'There is already a task running. Only one active task is allowed for a source queue arn at a given time.'
      using errcode = 'SQ008';
  end if;
  perform pg_notify('skipmq_tasks', '');
  return v_task;
end $$;
-- Does: adds to the totals of queues how many messages were received, and how many receives came back empty.
-- Called by: nodes, once a second for what they have counted; receive_message.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.add_receives(p_queue_ids integer[], p_received integer[], p_empty integer[]) returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set synchronous_commit = off
as $$
  insert into skipmq.queue_delta (at, queue_id, change, event, number)
  select skipmq.clock(), u.queue_id, 0, e.event, e.number
  from unnest(p_queue_ids, p_received, p_empty) u (queue_id, received, empty)
  cross join lateral (values ('received', u.received), ('empty', u.empty)) e (event, number)
  where e.number > 0;
$$;
-- Does: continues a task on the messages that match a filter, whose row the caller has locked: looks through up to p_limit
--   messages from its place on and moves, copies or deletes up to p_allowed of those that match; gives their number, how
--   many it looked through, its new place and whether nothing is left.
-- Called by: advance_move_tasks.
-- Locks, in order: for FIFO group rows by number, message rows, skipping both where others hold them; those of
--   move_messages, copy_messages and settle.
-- Raises: what move_messages and copy_messages raise.
-- Relies on index: message_pkey, and those of match_messages, move_messages, copy_messages and settle.
--
-- It goes on from before the first message that others hold: what is received then comes after the task's end. So each
-- is met once, however many nodes work on it, and what they did and the place are one transaction.
create function skipmq.advance_message_task(
  p_task skipmq.move_task, p_source integer, p_target integer, p_allowed integer, p_limit integer
) returns table (moved integer, passed integer, place_at timestamptz, place_number bigint, finished boolean)
language plpgsql volatile
as $$
#variable_conflict use_variable
declare
  v_fifo boolean := p_task.source_arn like '%.fifo';
  v_groups bigint[];
  v_found record;
  v_free bigint[];
  v_held bigint[];
  v_taken bigint[];
  v_full boolean := false;
begin
  moved := 0;
  passed := 0;
  place_at := coalesce(p_task.place_at, '-infinity');
  place_number := coalesce(p_task.place_number, -1);
  finished := false;
  while not v_full and passed < p_limit loop
    select array_agg(c.id) as ids, array_agg(c.at) as times, array_agg(c.number) as numbers,
      coalesce(array_agg(c.id) filter (where c.matches), '{}') as matching
    into v_found
    from skipmq.match_messages(
      p_source, place_at, place_number, p_task.started_at, p_task.body_contains, p_task.attribute_name,
      p_task.attribute_value, least(100, p_limit - passed)) c;
    if v_found.ids is null then
      finished := true;
      exit;
    end if;
    if v_fifo then
      v_groups := coalesce(skipmq.lock_groups(p_source, v_found.matching, false), '{}');
    end if;
    v_free := array(
      select m.id
      from skipmq.message m
      where m.id = any (v_found.matching) and m.queue_id = p_source and case
        when v_fifo then m.group_no = any (v_groups) and (m.visible_at <= skipmq.clock() or m.receive_count = m.receive_base)
        else m.visible_at <= p_task.started_at end
      for no key update skip locked);
    -- A statement of its own: what others have changed and committed meanwhile is held no more, and no match.
    v_held := array(
      select m.id
      from skipmq.message m
      where m.id = any (v_found.matching) and m.id <> all (v_free) and m.queue_id = p_source and case
        when v_fifo then m.group_no <> all (v_groups)
        else m.visible_at <= p_task.started_at end);
    v_taken := '{}';
    for v_n in 1 .. cardinality(v_found.ids) loop
      exit when v_found.ids[v_n] = any (v_held);
      if v_found.ids[v_n] = any (v_free) then
        v_full := moved + cardinality(v_taken) >= p_allowed;
        exit when v_full;
        v_taken := v_taken || v_found.ids[v_n];
      end if;
      place_at := v_found.times[v_n];
      place_number := v_found.numbers[v_n];
      passed := passed + 1;
    end loop;
    moved := moved + cardinality(v_taken);
    if v_taken = '{}' then
      null;
    elsif p_task.kind = 'move' then
      perform skipmq.move_messages(p_source, v_taken, p_target);
    elsif p_task.kind = 'copy' then
      perform skipmq.copy_messages(p_source, v_taken, p_target);
    else
      perform skipmq.settle(array(select m.ctid from skipmq.message m where m.id = any (v_taken)), 'deleted');
      if v_fifo then
        perform skipmq.refresh_groups(p_source, v_groups);
      end if;
    end if;
    v_full := v_full or v_held <> '{}';
  end loop;
  -- With the last one that p_limit allows, too, it is finished at once.
  finished := finished or not v_full and not exists (
    select from skipmq.match_messages(
      p_source, place_at, place_number, p_task.started_at, p_task.body_contains, p_task.attribute_name,
      p_task.attribute_value, 1));
  return next;
end $$;
-- Does: continues every active task that nobody else works on: moves (or copies, or deletes) what its rate allows since
--   the last time, at most p_limit messages, and ends it with the last one, when it was cancelled or a queue is gone;
--   gives the number of messages moved, or looked through where a filter chooses.
-- Called by: the janitor.
-- Locks, in order: task rows, skipping those that others hold; message rows likewise.
-- Raises: nothing.
-- Relies on index: move_task_active, and those of what it calls.
create function skipmq.advance_move_tasks(p_limit integer default 1000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_task skipmq.move_task;
  v_source integer;
  v_target integer;
  v_allowed integer;
  v_moved integer;
  v_finished boolean;
  v_step record;
  v_passed integer;
  v_failure text;
  v_total integer := 0;
begin
  for v_task in
    select t.* from skipmq.move_task t where t.status in ('RUNNING', 'CANCELLING')
    for update skip locked
  loop
    v_source := skipmq.queue_of_arn(v_task.source_arn);
    v_target := skipmq.queue_of_arn(v_task.destination_arn);
    if v_task.status = 'CANCELLING' then
      update skipmq.move_task t set status = 'CANCELLED' where t.task_id = v_task.task_id;
      continue;
    elsif coalesce(v_task.started_at < skipmq.queue_since(v_task.source_arn), true)
      or v_target is null and v_task.destination_arn is not null then
      update skipmq.move_task t
      set status = 'FAILED', failure_reason = 'AWS.SimpleQueueService.NonExistentQueue'
      where t.task_id = v_task.task_id;
      continue;
    end if;
    v_failure := null;
    v_allowed := p_limit;
    if v_task.messages_per_second is not null then
      -- A second's worth at most, however long nobody worked on it.
      v_task.paid_until := greatest(v_task.paid_until, v_now - interval '1 second');
      v_allowed := least(p_limit, floor(
        extract(epoch from v_now - v_task.paid_until) * v_task.messages_per_second)::integer);
      continue when v_allowed <= 0;
    end if;
    if v_task.kind <> 'redrive' then
      begin
        select * into v_step from skipmq.advance_message_task(v_task, v_source, v_target, v_allowed, p_limit);
      exception
        -- A queue went meanwhile, or the target does not take a message.
        when sqlstate 'SQ005' or sqlstate 'SQ007' or sqlstate 'SQ008' then
          update skipmq.move_task t set status = 'FAILED', failure_reason = left(sqlerrm, 200)
          where t.task_id = v_task.task_id;
          continue;
      end;
      update skipmq.move_task t set
        passed = t.passed + v_step.passed,
        place_at = v_step.place_at,
        place_number = v_step.place_number
      where t.task_id = v_task.task_id;
      v_moved := v_step.moved;
      v_passed := v_step.passed;
      v_finished := v_step.finished;
    elsif v_task.source_arn like '%.fifo' then
      v_moved := skipmq.move_fifo_batch(v_source, v_target, v_allowed, v_task.origins);
    else
      v_moved := skipmq.move_batch(v_source, v_target, v_allowed, v_task.origins);
    end if;
    if v_task.kind = 'redrive' then
      -- Null: others hold what is left.
      v_finished := v_moved = 0
        or v_moved > 0 and not skipmq.is_redrivable(v_source, v_target, v_task.source_arn like '%.fifo');
      if v_finished and v_task.moved + v_moved = 0 and v_target is null then
        v_failure := skipmq.redrive_failure(v_source, v_task.source_arn);
      end if;
      v_moved := coalesce(v_moved, 0);
      v_passed := v_moved;
    end if;
    update skipmq.move_task t set
      moved = t.moved + v_moved,
      to_move = greatest(t.to_move, t.moved + v_moved, t.passed),
      status = case when v_failure is not null then 'FAILED' when v_finished then 'COMPLETED' else 'RUNNING' end,
      failure_reason = v_failure,
      paid_until = v_task.paid_until
        + make_interval(secs => coalesce(v_moved::float8 / v_task.messages_per_second, 0))
    where t.task_id = v_task.task_id;
    v_total := v_total + v_passed;
  end loop;
  return v_total;
end $$;
-- Does: notes that the access keys, the keys for receipt handles or the ended sessions have changed, and notifies all
--   nodes when the transaction commits.
-- Called by: the functions that change them.
-- Locks, in order: the row of the cluster.
-- Raises: nothing.
-- Relies on index: none.
--
-- Not for nodes. The form of the notification is that of the nodes' own: PROCESS KIND WHAT.
create function skipmq.announce_access_keys() returns void
language sql volatile
as $$
  update skipmq.cluster set access_key_version = access_key_version + 1;
  select pg_catalog.pg_notify('skipmq', 'sql keys all')
$$;
-- Does: moves messages of a FIFO queue, whose groups the caller has locked, to the ends of their groups in
--   other FIFO queues, in the order given, with a row of history each. As 'dead-lettered' they go on counting their
--   receives, remember where they came from and have their message id as deduplication id, as on AWS; as 'redriven'
--   each is a new message, as resend makes it. Gives their number.
-- Called by: clear_group, move_fifo_batch.
-- Locks, in order: queue rows of the targets (shared: they are neither purged nor deleted meanwhile),
--   advisory locks of the target groups by number, message rows. As 'dead-lettered' they wait for no sender, whom
--   another of the receiver's groups may keep waiting: nothing is moved then.
-- Raises: nothing.
-- Relies on index: queue_id, message_pkey, message_group_pkey.
create function skipmq.append_fifo(p_queue_id integer, p_ids bigint[], p_targets integer[], p_how text)
returns integer
language plpgsql volatile
as $$
declare
  v_source skipmq.queue;
  v_dead boolean := p_how = 'dead-lettered';
  v_now timestamptz;
  v_groups bigint[];
  v_count integer;
begin
  select q.* into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  perform from (select distinct u.target from unnest(p_targets) u (target) order by 1) u
  cross join lateral (
    select from skipmq.queue q where q.queue_id = u.target for key share
  ) q;
  v_groups := array(
    select distinct hashtextextended(m.group_id, u.target)
    from unnest(p_ids, p_targets) u (id, target)
    cross join lateral (select m.group_id from skipmq.message m where m.id = u.id) m
    order by 1);
  if not v_dead then
    perform pg_advisory_xact_lock(u.group_no) from unnest(v_groups) u (group_no);
  elsif not (select bool_and(pg_try_advisory_xact_lock(u.group_no)) from unnest(v_groups) u (group_no)) then
    return 0;
  end if;
  v_now := skipmq.clock();
  perform skipmq.write_history(
    array(
      select m.tid
      from unnest(p_ids, p_targets) u (id, target)
      cross join lateral (
        select m.ctid as tid from skipmq.message m where m.id = u.id and m.queue_id = p_queue_id
      ) m
      where exists (select from skipmq.queue q where q.queue_id = u.target)),
    p_how, v_now);
  with numbered as materialized (
    select u.id, u.target, nextval('skipmq.sequence_number_seq') as sequence_number
    from (
      select u.id, u.target
      from unnest(p_ids, p_targets) with ordinality u (id, target, place)
      -- Gone meanwhile: its messages stay where they are.
      where exists (select from skipmq.queue q where q.queue_id = u.target)
      order by u.place
    ) u
  ), moved as (
    update skipmq.message m set
      id = case when v_dead then m.id else nextval('skipmq.message_id_seq') end,
      message_id = case when v_dead then m.message_id else gen_random_uuid() end,
      queue_id = n.target,
      group_no = hashtextextended(m.group_id, n.target),
      sequence_number = n.sequence_number,
      visible_at = v_now,
      sent_at = case when v_dead then m.sent_at else v_now end,
      enqueued_at = v_now,
      receive_count = case when v_dead then m.receive_count + 1 else 0 end,
      receive_base = case when v_dead then m.receive_base + 1 else 0 end,
      deduplication_id = case when v_dead then m.message_id::text else m.deduplication_id end,
      first_received_at = case when v_dead then m.first_received_at end,
      dead_letter_source = case when v_dead
        then format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name) end
    from numbered n
    where m.id = n.id and m.queue_id = p_queue_id
    returning m.*
  ), grouped as (
    insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
    select f.queue_id, f.group_no, v_now, f.first_number
    from (
      select m.queue_id, m.group_no, min(m.sequence_number) as first_number from moved m group by 1, 2
    ) f
    where current_setting('transaction_isolation') <> 'read committed' or not exists (
      select from skipmq.message_group g where g.queue_id = f.queue_id and g.group_no = f.group_no)
    on conflict do nothing
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event)
    select v_now, c.queue_id, sum(c.change), c.event
    from moved m
    cross join lateral (values (m.queue_id, 1, 'moved-in'), (p_queue_id, -1, p_how)) c (queue_id, change, event)
    group by c.queue_id, c.event
  )
  select count(*) into v_count from moved;
  return v_count;
end $$;
-- Does: gives records of the audit log, newest first, up to p_limit with an id below p_before.
-- Called by: the ListAuditRecords action, `skipmq audit`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: audit_record_pkey, audit_record_queue, audit_record_access_key, audit_record_action.
--
-- Of p_account: what it did, what was done to its queues, and refusals of whoever is in no account that is known;
-- without one, everything. A filter that is null chooses all. recorded_at is in seconds since 1970.
create function skipmq.audit_records(
  p_account text default null, p_before bigint default null, p_limit integer default 50, p_queue text default null,
  p_access_key text default null, p_action text default null, p_outcome text default null
) returns table (
  id bigint, recorded_at float8, account text, access_key text, claimed boolean, user_arn text, action text, queue text,
  client text, door text, request_id text, outcome text, parameters jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
begin
  return query
  select
    r.id, extract(epoch from r.recorded_at)::float8, r.account, r.access_key, r.claimed, r.user_arn, r.action, r.queue,
    r.client, r.door, r.request_id, r.outcome, r.parameters
  from skipmq.audit_record r
  where (p_before is null or r.id < p_before)
    and (p_account is null or r.account is null or r.account = p_account or split_part(r.queue, ':', 5) = p_account)
    and (p_queue is null or r.queue = p_queue)
    and (p_access_key is null or r.access_key = p_access_key)
    and (p_action is null or r.action = p_action)
    and (p_outcome is null or r.outcome = p_outcome)
  order by r.id desc
  limit p_limit;
end $$;
-- Does: gives a number of which there are no more messages in flight: that of all messages of the queue where it is less
--   than half of p_most; otherwise those in flight, counted up to p_most.
-- Called by: the ReceiveMessage action for its limit.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: those of count_all and count_in_flight.
--
-- While a snapshot is held open, a count meets all that was received and deleted within its visibility timeout.
create function skipmq.bound_in_flight(p_queue_id integer, p_most integer default 120000) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_all bigint := skipmq.count_all(p_queue_id);
begin
  if v_all < p_most / 2 then
    return greatest(v_all, 0);
  end if;
  return skipmq.count_in_flight(p_queue_id, p_most);
end $$;
-- Does: asks a running task to stop; gives how many messages it has moved. What is moved stays moved.
-- Called by: the CancelMessageMoveTask action; SQL users.
-- Locks, in order: task row.
-- Raises: SQ010 when there is no such task, it is of another source than that given or of a deleted queue of its name, SQ008 when it is not running.
-- Relies on index: move_task_pkey.
create function skipmq.cancel_move_task(p_task_id uuid, p_source_arn text default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_status text;
  v_moved bigint;
begin
  select t.status, t.moved into v_status, v_moved
  from skipmq.move_task t where t.task_id = p_task_id and t.source_arn = coalesce(p_source_arn, t.source_arn)
    and coalesce(t.started_at >= skipmq.queue_since(t.source_arn), true)
  for update;
  if v_status is null then
    raise exception 'Task does not exist.' using errcode = 'SQ010';
  elsif v_status <> 'RUNNING' then
    raise exception 'Only active tasks can be cancelled.' using errcode = 'SQ008';
  end if;
  update skipmq.move_task t set status = 'CANCELLING' where t.task_id = p_task_id;
  perform pg_notify('skipmq_tasks', '');
  return v_moved;
end $$;
-- Does: enables or disables an access key, lets it expire, or gives it other rights; null changes nothing.
-- Called by: the command line, as the owner.
-- Locks, in order: the access key, the row of the cluster.
-- Raises: SQ010 when there is no such key.
-- Relies on index: access_key_pkey.
--
-- Not for nodes.
create function skipmq.change_access_key(
  p_key_id text, p_enabled boolean, p_lifetime interval, p_rights jsonb default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.access_key k set
    enabled = coalesce(p_enabled, k.enabled),
    expires_at = coalesce(skipmq.clock() + p_lifetime, k.expires_at),
    rights = coalesce(p_rights, k.rights)
  where k.key_id = p_key_id;
  if not found then
    raise exception 'there is no access key %', p_key_id using errcode = 'SQ010';
  end if;
  perform skipmq.announce_access_keys();
end $$;
-- Does: what change_visibility does, for messages of a FIFO queue: with the first message of a group the
--   whole group becomes available sooner or later. Another outcome is held: nothing was done, since another
--   transaction holds the group, and p_waits is false.
-- Called by: the ChangeMessageVisibility and ChangeMessageVisibilityBatch actions; SQL users.
-- Locks, in order: group rows by number, message rows by id.
-- Raises: what change_visibility raises.
-- Relies on index: those of lock_groups, change_visibility and refresh_groups.
create function skipmq.change_fifo_visibility(
  p_queue_id integer,
  p_ids bigint[],
  p_receive_counts integer[],
  p_received_at timestamptz[],
  p_timeouts integer[],
  p_commit text default null,
  p_waits boolean default true
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_groups bigint[] := skipmq.lock_groups(p_queue_id, p_ids, p_waits);
  v_held bigint[];
begin
  if not p_waits then
    v_held := array(
      select m.id
      from unnest(p_ids) u (id)
      cross join lateral (
        select m.id
        from skipmq.message m
        where m.id = u.id and m.queue_id = p_queue_id and m.group_no = any (v_groups) is not true
      ) m);
  end if;
  return query
  select c.place, case when p_ids[c.place] = any (v_held) then 'held' else c.outcome end
  from skipmq.change_visibility(
    p_queue_id,
    case when v_held <> '{}' then array(
      select case when u.id = any (v_held) is not true then u.id end
      from unnest(p_ids) with ordinality u (id, place)
      order by u.place)
    else p_ids end,
    p_receive_counts, p_received_at, p_timeouts, p_commit) c;
  perform skipmq.refresh_groups(p_queue_id, v_groups);
end $$;
-- Does: hides a message that was received from the queue of that name, standard or FIFO, for p_visibility_timeout
--   seconds from now on (0: makes it visible), and says whether it did: false when it was settled, or, of a FIFO queue,
--   is visible or was received again.
-- Called by: SQL users.
-- Locks, in order: those of check_grant, then of change_visibility or change_fifo_visibility.
-- Raises: what check_grant and check_timeouts raise; SQ001 when there is no such queue, SQ011 without a timeout.
-- Relies on index: queue_pkey, and those of the functions it calls.
create function skipmq.change_message_visibility(
  p_queue text,
  p_id bigint,
  p_receive_count integer,
  p_visibility_timeout integer,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id integer;
begin
  perform skipmq.check_grant('receive', p_queue, p_account, p_region);
  v_queue_id := skipmq.queue_id(p_queue, p_account, p_region);
  if p_visibility_timeout is null then
    raise exception 'The request must contain the parameter VisibilityTimeout.' using errcode = 'SQ011';
  elsif p_queue collate "C" like '%.fifo' then
    return (
      select c.outcome = 'changed'
      from skipmq.change_fifo_visibility(
        v_queue_id, array[p_id], array[p_receive_count], null, array[p_visibility_timeout]) c);
  end if;
  return (
    select c.outcome = 'changed'
    from skipmq.change_visibility(
      v_queue_id, array[p_id], array[p_receive_count], null, array[p_visibility_timeout]) c);
end $$;
-- Does: hides messages that were received for p_timeouts seconds from now on (0: makes them visible), and says
--   for each, by its place in the arrays, what became of it: changed, missing (settled), beyond-limit (more than
--   12 hours after its receive); and, of a FIFO queue, missing (received again) or not-in-flight (visible already).
-- Called by: the ChangeMessageVisibility and ChangeMessageVisibilityBatch actions; SQL users.
-- Locks, in order: message rows by id.
-- Raises: for an SQL user (p_commit is null) what check_timeouts raises.
-- Relies on index: message_pkey.
--
-- p_received_at is the time of the receive that the receipt stands for (null: not checked).
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.change_visibility(
  p_queue_id integer,
  p_ids bigint[],
  p_receive_counts integer[],
  p_received_at timestamptz[],
  p_timeouts integer[],
  p_commit text default null
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.write_time();
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  else
    perform skipmq.check_timeouts(p_timeouts);
  end if;
  -- Locked in a statement of its own, so that the next one sees the rows as they are now.
  perform from (
    select u.id from unnest(p_ids) u (id) order by u.id
  ) r
  cross join lateral (
    select from skipmq.message m
    where m.id = r.id and m.queue_id = p_queue_id
    for no key update
  ) l;
  return query
  with receipt as materialized (
    select u.place, u.id, u.receive_count, u.received_at, v_now + make_interval(secs => greatest(u.timeout, 0)) as until
    from unnest(p_ids, p_receive_counts, p_received_at, p_timeouts) with ordinality
      u (id, receive_count, received_at, timeout, place)
  ), found as materialized (
    select r.*, m.tid, m.strict and m.visible_at <= v_now as late
    from receipt r
    left join lateral (
      select m.ctid as tid, m.visible_at, m.group_no is not null as strict
      from skipmq.message m
      where m.id = r.id and m.queue_id = p_queue_id
        and (m.receive_count = r.receive_count or m.group_no is null and m.receive_count > r.receive_count)
        and (r.received_at is null or m.first_received_at <= r.received_at)
    ) m on true
  ), changed as (
    update skipmq.message m set visible_at = f.until
    from found f
    where m.ctid = f.tid and not f.late
      and (f.received_at is null or f.until <= f.received_at + interval '12 hours')
  )
  select
    f.place,
    case
      when f.tid is null then 'missing'
      when f.late then 'not-in-flight'
      when f.until > f.received_at + interval '12 hours' then 'beyond-limit'
      else 'changed'
    end
  from found f
  order by f.place;
end $$;
-- Does: checks the attributes of messages that come by SQL as the nodes check what comes over HTTP; gives them as the
--   nodes store them (null for none), and how many bytes of each message's limit they take: names, types and values.
-- Called by: check_messages.
-- Locks, in order: none.
-- Raises: with the error texts of the nodes, SQ007 for lists; SQ008 for more than ten attributes, names, types,
--   values and characters that SQS does not take; SQ011 without a type; SQ012 for JSON of another form and for
--   binary values that are not base64; 22P02, 22P05 for what is no JSON to PostgreSQL.
-- Relies on index: none.
--
-- One statement for all: what it costs to start it is half of what it costs for one message.
create function skipmq.check_attributes(p_attributes text[], out stored text[], out bytes bigint[])
language plpgsql immutable
as $$
declare
  v_refusal text;
begin
  select
    array_agg('{' || g.stored || '}' order by g.place), array_agg(coalesce(g.bytes, 0) order by g.place),
    min(coalesce(g.refusal, case when g.count > 10 then
      format('SQ008 Number of message attributes [%s] exceeds the allowed maximum [10].', g.count) end))
  into stored, bytes, v_refusal
  from (
    select
      a.place, count(a.name) as count,
      string_agg(
        to_json(a.name) || case
          when a.text is null then ':{"BinaryValue":"' || a.binary || '"'
          else ':{"StringValue":' || to_json(a.text) end || ',"DataType":' || to_json(a.type) || '}', ',') as stored,
      sum(octet_length(a.name) + octet_length(a.type) + coalesce(
        octet_length(a.text), octet_length(a.binary) / 4 * 3 - length(a.binary) + length(rtrim(a.binary, '=')))) as bytes,
      min(case
        when a.name is null then
          case when jsonb_typeof(a.given) not in ('object', 'null') then
            'SQ012 Message attributes are {"name": {"DataType": "String", "StringValue": "value"}}.' end
        when jsonb_typeof(a.value) <> 'object' or jsonb_typeof(a.value -> 'DataType') not in ('string', 'null')
          or jsonb_typeof(a.value -> 'StringValue') not in ('string', 'null')
          or jsonb_typeof(a.value -> 'BinaryValue') not in ('string', 'null') then
          'SQ012 Message attributes are {"name": {"DataType": "String", "StringValue": "value"}}.'
        when a.type is null then
          'SQ011 The request must contain the parameter DataType.'
        when a.binary !~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$' then
          'SQ012 The value of a blob is not base64.'
        when coalesce(a.value ->> 'StringListValues', a.value ->> 'BinaryListValues') is not null then
          'SQ007 Message attribute list values in SendMessage operation are not supported.'
        when not skipmq.is_attribute_name(a.name) then format(
          'SQ008 The message attribute name ''%s'' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters.',
          skipmq.shown(a.name))
        when a.type = '' then format(
          'SQ008 The message attribute ''%s'' must contain a non-empty message attribute type.', skipmq.shown(a.name))
        when a.kind not in ('String', 'Number', 'Binary') then format(
          'SQ008 The message attribute ''%s'' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.',
          skipmq.shown(a.name))
        when length(a.type) > 256 then format(
          'SQ008 The type of message (user) attribute ''%s'' can be at most 256 characters long.', skipmq.shown(a.name))
        when coalesce(case a.kind when 'Binary' then a.binary else a.text end, '') = '' or num_nulls(a.text, a.binary) = 0
          then format(
          'SQ008 Message (user) attribute ''%s'' must contain a non-empty value of type ''%s''.',
          skipmq.shown(a.name), a.kind)
        when skipmq.has_forbidden_character(a.type || coalesce(a.text, '')) then
          'SQ008 Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF'
        when a.kind = 'Number' and not skipmq.is_number(a.text) then format(
          'SQ008 Can''t cast the value of message (user) attribute ''%s'' to a number.', skipmq.shown(a.name))
      end) as refusal
    from (
      select
        v.*, v.value ->> 'DataType' as type, split_part(v.value ->> 'DataType', '.', 1) as kind,
        v.value ->> 'StringValue' as text, v.value ->> 'BinaryValue' as binary
      from (
        select n.place, n.given, n.name, n.given -> n.name as value
        from (
          -- The series gives a row where there is no name.
          select
            m.place, m.given, generate_series(1, 1),
            jsonb_object_keys(case when jsonb_typeof(m.given) = 'object' then m.given end) as name
          from (
            select u.place, u.attributes::jsonb as given
            from unnest(p_attributes) with ordinality u (attributes, place)
            offset 0 -- So that it is computed once; below, too.
          ) m
        ) n
        offset 0
      ) v
      offset 0
    ) a
    group by a.place
  ) g;
  if v_refusal is not null then
    raise exception '%', substr(v_refusal, 7) using errcode = left(v_refusal, 5);
  end if;
end $$;
-- Does: checks that a generation is a queue's present one, and that the queue is of the caller's type.
-- Called by: the message functions, where they find nothing to do.
-- Locks, in order: none.
-- Raises: SQ005 when no queue has this generation, SQ007 when it is of the other type.
-- Relies on index: queue_id.
create function skipmq.check_generation(p_queue_id integer, p_fifo boolean) returns void
language plpgsql stable
as $$
declare
  v_fifo boolean;
begin
  select q.fifo into v_fifo from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  elsif v_fifo <> p_fifo then
    raise exception 'the queue is %', case when v_fifo then 'FIFO' else 'standard' end using errcode = 'SQ007';
  end if;
end $$;
-- Does: checks that the session's user may send to, or receive from, the queue of a name: that it is a member of a role
--   with a grant of it, of skipmq_node, or of the schema's owner.
-- Called by: the functions for applications, which take a queue by name, before they look for the queue.
-- Locks, in order: the grant, skipped when others hold it, for the instant of the check; only in a transaction with one
--   snapshot for all statements.
-- Raises: 42501, with the command that grants it, the same whether there is such a queue or not; 40001 when the
--   transaction has one snapshot for all statements and the grant was changed or revoked since.
-- Relies on index: queue_grant_pkey, queue_grant_pattern.
--
-- session_user is who has logged in: neither SET ROLE nor a function with the rights of its owner changes it.
-- Escaped by !, not by a backslash: a session that turns standard_conforming_strings off changes what that means. The
-- collation is named, since the caller's arguments may have one of their own.
create function skipmq.check_grant(p_right text, p_queue text, p_account text, p_region text) returns void
language plpgsql volatile
as $$
declare
  v_grant tid;
  v_command text;
begin
  if pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'skipmq'), 'member')
    or pg_has_role(session_user, to_regrole('skipmq_node'), 'member')
  then
    return;
  end if;
  select f.tid into v_grant
  from (
    select g.ctid as tid, g.role, g.may_send, g.may_receive
    from skipmq.queue_grant g
    where g.account = p_account collate "C" and g.region = p_region collate "C" and g.queue = p_queue collate "C"
    union all
    select g.ctid, g.role, g.may_send, g.may_receive
    from skipmq.queue_grant g
    where g.account = p_account collate "C" and g.region = p_region collate "C" and g.queue like '%*%'
      and p_queue collate "C" like replace(replace(g.queue, '_', '!_'), '*', '%') escape '!'
  ) f
  where case p_right when 'send' then f.may_send when 'receive' then f.may_receive end
    and pg_has_role(session_user, f.role, 'member')
  limit 1;
  if v_grant is null then
    select string_agg(
      case when w.word collate "C" ~ '^[A-Za-z0-9_.-]+$' then w.word else quote_literal(w.word) end, ' ' order by w.place)
    into v_command
    from unnest(
      array['skipmq', 'grant', session_user::text, '--' || p_right, skipmq.shown(p_queue)]
      || case when p_account collate "C" <> '000000000000' then array['--account', skipmq.shown(p_account)] end
      || case when p_region collate "C" <> 'us-east-1' then array['--region', skipmq.shown(p_region)] end
    ) with ordinality w (word, place);
    raise exception 'role % may not % the queue %: the owner of the schema grants it by `%`', session_user,
      case p_right when 'send' then 'send to' else 'receive from' end, skipmq.shown(p_queue), v_command
      using errcode = '42501';
  end if;
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    -- Its snapshot may still have a grant that is revoked; the row's lock tells. It goes with the subtransaction, so
    -- that no session can hold up a revocation.
    begin
      perform from skipmq.queue_grant g where g.ctid = v_grant for share skip locked;
      raise sqlstate 'SQ000';
    exception
      when sqlstate 'SQ000' then null;
    end;
  end if;
end $$;
-- Does: checks all but the attributes of a message that comes by SQL as the nodes check what comes over HTTP.
-- Called by: check_messages.
-- Locks, in order: none.
-- Raises: with the error texts of the nodes, SQ008 for a delay, an id or a trace header that SQS does not take, and
--   for more than p_most bytes of body and attributes; SQ009 when the body has characters that XML 1.0 does not
--   allow; SQ011 without a body, or without a group where p_fifo.
-- Relies on index: none.
create function skipmq.check_message(
  p_fifo boolean, p_most integer, p_body text, p_attribute_bytes bigint, p_delay integer, p_group_id text,
  p_deduplication_id text, p_trace_header text
) returns void
language plpgsql immutable
as $$
begin
  if p_body is null or p_body = '' then
    raise exception 'The request must contain the parameter MessageBody.' using errcode = 'SQ011';
  elsif skipmq.has_forbidden_character(p_body) then
    raise exception 'Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF'
      using errcode = 'SQ009';
  end if;
  if p_delay not between 0 and 900 then
    raise exception 'Value % for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.',
      p_delay using errcode = 'SQ008';
  elsif not skipmq.is_identifier(p_group_id) then
    raise exception 'Value % for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.',
      skipmq.shown(p_group_id) using errcode = 'SQ008';
  elsif p_trace_header = '' then
    raise exception 'Message (system) attribute ''AWSTraceHeader'' must contain a non-empty value of type ''String''.'
      using errcode = 'SQ008';
  elsif length(p_trace_header) > 2048 then
    raise exception 'Message (system) attribute ''AWSTraceHeader'' can be at most 2048 characters long.'
      using errcode = 'SQ008';
  elsif skipmq.has_forbidden_character(p_trace_header) then
    raise exception 'Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF'
      using errcode = 'SQ008';
  elsif not skipmq.is_identifier(p_deduplication_id) then
    raise exception 'Value % for parameter MessageDeduplicationId is invalid. Reason: MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.',
      skipmq.shown(p_deduplication_id) using errcode = 'SQ008';
  elsif p_fifo and p_group_id is null then
    raise exception 'The request must contain the parameter MessageGroupId.' using errcode = 'SQ011';
  elsif p_fifo and p_deduplication_id is null then
    raise exception 'The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly'
      using errcode = 'SQ008';
  elsif octet_length(p_body) + coalesce(p_attribute_bytes, 0) > p_most then
    raise exception 'One or more parameters are invalid. Reason: Message must be shorter than % bytes.', p_most
      using errcode = 'SQ008';
  end if;
end $$;
-- Does: checks messages that come by SQL as the nodes check what comes over HTTP, and gives their attributes as the
--   nodes store them.
-- Called by: send_messages and send_fifo_messages, for SQL users.
-- Locks, in order: none.
-- Raises: what check_message and check_attributes raise.
-- Relies on index: queue_id.
create function skipmq.check_messages(
  p_queue_id integer, p_bodies text[], p_attributes text[], p_delays integer[], p_group_ids text[],
  p_deduplication_ids text[], p_trace_headers text[]
) returns text[]
language plpgsql stable
as $$
declare
  v_attributes record;
  v_stored text[];
  v_bytes bigint[];
begin
  if array_remove(p_attributes, null) <> '{}' then
    v_attributes := skipmq.check_attributes(p_attributes);
    v_stored := v_attributes.stored;
    v_bytes := v_attributes.bytes;
  end if;
  perform skipmq.check_message(
    q.fifo, q.maximum_message_size, u.body, u.bytes, u.delay, u.group_id, u.deduplication_id, u.trace_header)
  from skipmq.queue q
  cross join unnest(p_bodies, v_bytes, p_delays, p_group_ids, p_deduplication_ids, p_trace_headers)
    u (body, bytes, delay, group_id, deduplication_id, trace_header)
  where q.queue_id = p_queue_id;
  return v_stored;
end $$;
-- Does: checks the limit and the visibility timeout of a receive by SQL as the nodes check those over HTTP; gives the
--   limit, 1 when there is none.
-- Called by: receive_messages, receive_fifo_messages and receive_fifo_attempt, for SQL users.
-- Locks, in order: none.
-- Raises: SQ008 when one of them is out of range.
-- Relies on index: none.
create function skipmq.check_receive(p_limit integer, p_visibility_timeout integer) returns integer
language plpgsql immutable
as $$
begin
  if p_limit not between 1 and 10 then
    raise exception 'Value % for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.',
      p_limit using errcode = 'SQ008';
  end if;
  perform skipmq.check_timeouts(array[p_visibility_timeout]);
  return coalesce(p_limit, 1);
end $$;
-- Does: checks that a queue may name another as its dead-letter queue; p_target is the ARN in parts.
-- Called by: set_queue_attributes.
-- Locks, in order: queue row of the dead-letter queue (shared, so that it is not deleted meanwhile).
-- Raises: SQ008 when it is not there, in another region or account, of the other type, or does not allow it.
-- Relies on index: queue_id, queue_pkey.
create function skipmq.check_redrive(p_queue_id integer, p_policy text, p_target text[]) returns void
language plpgsql volatile
as $$
declare
  v_source skipmq.queue;
  v_target skipmq.queue;
  v_allow jsonb;
  v_reason text;
begin
  select q.* into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  select q.* into v_target from skipmq.queue q
  where q.account = p_target[5] and q.region = p_target[4] and q.name = p_target[6]
  for key share;
  v_allow := coalesce(nullif(v_target.redrive_allow_policy, ''), '{}');
  v_reason := case
    when p_target[5] is distinct from v_source.account
      then 'Dead letter target owner should be same as the source.'
    when p_target[4] is distinct from v_source.region
      then 'Dead-letter target region must be the same as the source.'
    when v_target.name is null then 'Dead letter target does not exist.'
    when v_target.fifo <> v_source.fifo
      then 'Dead-letter queue must be same type of queue as the source.'
    when v_allow ->> 'redrivePermission' = 'denyAll'
      or v_allow ->> 'redrivePermission' = 'byQueue' and not v_allow -> 'sourceQueueArns'
        ? format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
      then 'Dead letter target does not allow the source queue to use it.'
  end;
  if v_reason is not null then
    raise exception 'Value % for parameter RedrivePolicy is invalid. Reason: %', left(p_policy, 200), v_reason
      using errcode = 'SQ008';
  end if;
end $$;
-- Does: checks visibility timeouts that come by SQL as the nodes check those that come over HTTP.
-- Called by: check_receive, change_visibility, for SQL users.
-- Locks, in order: none.
-- Raises: SQ008 when one is out of range.
-- Relies on index: none.
create function skipmq.check_timeouts(p_timeouts integer[]) returns void
language plpgsql immutable
as $$
declare
  v_timeout integer;
begin
  foreach v_timeout in array p_timeouts loop
    if v_timeout not between 0 and 43200 then
      raise exception 'Value % for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must be >= 0 and <= 43200.',
        v_timeout using errcode = 'SQ008';
    end if;
  end loop;
end $$;
-- Does: claims messages of a FIFO queue for several receives, up to p_limits of each, and hides them, with the groups
--   they belong to, for p_visibility_timeout seconds (null: the queue's). Each receive, in its place, gets of the group
--   that has waited longest as many as there are, in order, then of the next; no two share a group. A group gives what
--   lies before its first message that is in flight or delayed. Expired and too often received messages are settled on
--   the way, up to some number: then it gives what it has. A receive that gets nothing has one row without an id.
-- Called by: the ReceiveMessage action, receive_fifo_messages.
-- Locks, in order: group rows, skipping those that others hold; message rows, and those of clear_groups.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is not FIFO.
-- Relies on index: queue_id, message_group_available, message_group_order.
--
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.claim_fifo_messages(
  p_queue_id integer, p_limits integer[], p_visibility_timeout integer default null, p_commit text default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, sequence_number bigint, deduplication_id text, next_visible_in interval, place integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_fifo boolean;
  v_max integer;
  v_until timestamptz;
  v_horizon timestamptz;
  v_delay interval;
  v_most integer := 2147483647;
  v_dead_letter_queue integer;
  v_wanted integer[] := '{}'; -- The place of a receive for each message that it wants.
  v_given integer := 0;
  v_most_of_one integer := (select max(u.most) from unnest(p_limits) u (most));
  v_groups bigint[]; v_firsts bigint[];
  v_width integer := (select count(*) from unnest(p_limits) u (most) where u.most > 0); -- A group for each at first.
  -- What the groups can give: each message with the place of its group and of the receive that gets it.
  v_tids tid[]; v_sources integer[]; v_places integer[];
  v_cut integer; -- The group whose rest waits for the receive that has its beginning.
  v_got integer;
  v_effort integer := 5000; -- For messages to be cleared, and, at five times the price, groups that give nothing.
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  select
    q.fifo, v_now - make_interval(secs => q.message_retention_period), make_interval(secs => q.delay_seconds),
    v_now + greatest(
      make_interval(secs => coalesce(p_visibility_timeout, q.visibility_timeout)), interval '1 microsecond'),
    q.max_receive_count
  into v_fifo, v_horizon, v_delay, v_until, v_max
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is distinct from true then
    perform skipmq.check_generation(p_queue_id, true);
  end if;
  if v_max is not null then
    v_dead_letter_queue := skipmq.dead_letter_queue(p_queue_id);
    v_most := case when v_dead_letter_queue is null then v_most else v_max end;
  end if;
  for n in 1 .. cardinality(p_limits) loop
    v_wanted := v_wanted || array_fill(n, array[p_limits[n]]);
  end loop;

  while v_given < cardinality(v_wanted) loop
    -- In a statement of its own: the next one then sees the messages of these groups as they are.
    select array_agg(h.group_no), array_agg(h.first_number) into v_groups, v_firsts
    from (
      select g.group_no, g.first_number, g.available_at
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.available_at > '-infinity' and g.available_at <= v_now
      order by g.available_at
      limit v_width
      for no key update skip locked
    ) h;
    exit when v_groups is null;
    select
      coalesce(array_agg(l.tid order by h.place, l.sequence_number), '{}'),
      array_agg(h.place order by h.place, l.sequence_number)
    into v_tids, v_sources
    from unnest(v_groups, v_firsts) with ordinality h (group_no, first_number, place)
    cross join lateral (
      select m.ctid as tid, m.sequence_number, bool_and(
        m.enqueued_at > v_horizon and m.receive_count - m.receive_base < v_most
        and case when m.receive_count = m.receive_base then m.visible_at + v_delay else m.visible_at end <= v_now
      ) over (order by m.sequence_number) as ready
      from (
        select m.ctid, m.sequence_number, m.enqueued_at, m.receive_count, m.receive_base, m.visible_at
        from skipmq.message m
        where m.queue_id = p_queue_id and m.group_no = h.group_no and m.sequence_number >= h.first_number
        order by m.sequence_number
        limit v_most_of_one
      ) m
    ) l
    where l.ready;

    v_places := '{}';
    v_cut := 0;
    v_got := v_given;
    for n in 1 .. cardinality(v_tids) loop
      continue when v_sources[n] = v_cut;
      exit when v_given = cardinality(v_wanted);
      v_given := v_given + 1;
      v_places[n] := v_wanted[v_given];
      if v_wanted[v_given + 1] is distinct from v_wanted[v_given] then
        v_cut := v_sources[n];
      end if;
    end loop;
    v_got := v_given - v_got;
    return query
    with claimed as (
      update skipmq.message m set
        visible_at = v_until,
        receive_count = m.receive_count + 1,
        first_received_at = coalesce(m.first_received_at, v_now)
      from unnest(v_tids, v_places) with ordinality h (tid, place, n)
      where m.ctid = h.tid and h.place is not null
      returning m.*, h.place, h.n
    ), hidden as (
      update skipmq.message_group g set available_at = v_until
      from (select distinct c.group_no from claimed c) c
      where g.queue_id = p_queue_id and g.group_no = c.group_no
    )
    select
      c.id, c.receive_count, v_now, c.message_id, c.body, c.attributes, c.receive_count - c.receive_base, c.sent_at,
      c.first_received_at, c.group_id, c.sender, c.trace_header, c.dead_letter_source, c.sequence_number,
      c.deduplication_id, null::interval, c.place
    from claimed c
    order by c.n;
    exit when v_given = cardinality(v_wanted);
    v_effort := v_effort - skipmq.clear_groups(p_queue_id, v_groups, v_now, v_horizon, v_most, v_dead_letter_queue);
    exit when v_effort <= 0;
    -- As many as give the rest, if they are like those; not many more, which others could use meanwhile.
    v_width := least(
      cardinality(v_wanted) - v_given, 2 * cardinality(v_groups) + 10,
      (cardinality(v_wanted) - v_given) * cardinality(v_groups) / greatest(v_got, 1) + 1);
  end loop;

  if v_given < cardinality(v_wanted) then
    next_visible_in := case when v_effort <= 0 then interval '0' else (
      select min(g.available_at) from skipmq.message_group g where g.queue_id = p_queue_id and g.available_at > v_now
    ) - v_now end;
    received_at := v_now;
    for n in coalesce(v_wanted[v_given], 0) + 1 .. cardinality(p_limits) loop
      continue when p_limits[n] = 0;
      place := n;
      return next;
    end loop;
  end if;
end $$;
-- Does: clears the head of a group, which the caller has locked, of up to 1,000 messages that are past
--   retention, or were received p_most times and go to the dead-letter queue p_target; and says when the
--   group can give its first message. Gives how many it cleared.
-- Called by: clear_groups.
-- Locks, in order: message rows, and those of append_fifo and refresh_groups.
-- Raises: nothing.
-- Relies on index: message_group_order, and those of append_fifo and refresh_groups.
create function skipmq.clear_group(
  p_queue_id integer, p_group_no bigint, p_now timestamptz, p_horizon timestamptz, p_most integer, p_target integer
) returns integer
language plpgsql volatile
as $$
declare
  v_tids tid[];
  v_ids bigint[];
  v_count integer := 0;
begin
  select
    array_agg(h.tid) filter (where h.expired),
    array_agg(h.id order by h.sequence_number) filter (where h.dead)
  into v_tids, v_ids
  from (
    select m.tid, m.id, m.sequence_number,
      bool_and(m.expired) over (order by m.sequence_number) as expired,
      bool_and(m.dead and not m.expired) over (order by m.sequence_number) as dead
    from (
      select m.ctid as tid, m.id, m.sequence_number, m.visible_at,
        m.enqueued_at <= p_horizon and (m.visible_at <= p_now or m.receive_count = m.receive_base) as expired,
        m.receive_count - m.receive_base >= p_most and m.visible_at <= p_now as dead
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no = p_group_no
      order by m.sequence_number
      limit 1000
    ) m
  ) h;
  if v_tids is not null then
    v_count := skipmq.settle(v_tids, 'expired');
  elsif v_ids is not null then
    v_count := skipmq.append_fifo(
      p_queue_id, v_ids, array_fill(p_target, array[cardinality(v_ids)]), 'dead-lettered');
  end if;
  perform skipmq.refresh_groups(p_queue_id, array[p_group_no]);
  if v_count = 0 and v_ids is not null then
    -- A sender holds a lock in the dead-letter queue, or that has been purged: read it again soon.
    update skipmq.message_group g set available_at = p_now + interval '10 milliseconds'
    where g.queue_id = p_queue_id and g.group_no = p_group_no;
  end if;
  return v_count;
end $$;
-- Does: clears the heads of those of the given groups, which the caller has locked, that could give nothing: they
--   are empty, or their first message is in flight, delayed, expired or was received too often. Gives the effort:
--   1 for each message cleared, 5 for each group.
-- Called by: claim_fifo_messages, when its claim gives too few.
-- Locks, in order: those of clear_group.
-- Raises: nothing.
-- Relies on index: message_group_pkey, and those of clear_group.
create function skipmq.clear_groups(
  p_queue_id integer, p_groups bigint[], p_now timestamptz, p_horizon timestamptz, p_most integer, p_target integer
) returns integer
language plpgsql volatile
as $$
begin
  return coalesce((
    select sum(5 + skipmq.clear_group(p_queue_id, g.group_no, p_now, p_horizon, p_most, p_target))
    from skipmq.message_group g
    where g.queue_id = p_queue_id and g.group_no = any (p_groups) and g.available_at <= p_now), 0);
end $$;
-- Does: clears the head of a shard of a standard queue of what a receive does not give, up to 1,000 messages of
--   each kind: puts those of noisy tenants into shard 1, settles those past retention, moves those received
--   p_most times to the dead-letter queue p_target (null: there is none). Gives how many it cleared.
-- Called by: receive_messages, when its claim gives too few.
-- Locks, in order: those of deprioritise, expire_visible and move_to_dead_letter_queue.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.clear_head(
  p_queue_id integer, p_shard smallint, p_from timestamptz, p_to timestamptz, p_horizon timestamptz,
  p_target integer, p_most integer, p_noisy text[]
) returns integer
language plpgsql volatile
as $$
declare
  v_most_at_once constant integer := 1000;
  v_count integer := 0;
begin
  if p_noisy <> '{}' then
    v_count := skipmq.deprioritise(p_queue_id, p_noisy, p_to, v_most_at_once);
  end if;
  if v_count = 0 then
    v_count := skipmq.expire_visible(p_queue_id, p_shard, p_from, p_to, p_horizon, v_most_at_once);
  end if;
  if v_count = 0 and p_target is not null then
    v_count := skipmq.move_to_dead_letter_queue(p_queue_id, p_shard, p_target, p_most, p_from, p_to, v_most_at_once);
  end if;
  return v_count;
end $$;
-- Does: settles up to p_limit messages of purged and deleted queues as purged; gives their number.
--   A generation is cleared an hour after it ended, when a last read finds nothing: until then a send that
--   looked the queue up before may still commit.
-- Called by: the janitor.
-- Locks, in order: row of the job (when it is held elsewhere nothing is done), message rows,
--   skipping those that others hold; group rows.
-- Raises: nothing.
-- Relies on index: generation_to_clear, message_visible, message_group_order, message_group_pkey.
create function skipmq.clear_retired(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_old record;
  v_tids tid[];
  v_groups integer;
  v_count integer := 0;
begin
  if not skipmq.hold_job('clear_retired') then
    return 0;
  end if;
  for v_old in
    select i.queue_id, i.retired_at
    from skipmq.generation i
    where i.retired_at is not null and i.cleared_at is null
    order by i.retired_at
  loop
    select array_agg(h.tid) into v_tids
    from (
      select s.tid
      from (
        select m.ctid as tid from skipmq.message m
        where m.queue_id = v_old.queue_id and m.group_no is null
        limit p_limit - v_count
        for no key update skip locked
      ) s
      union all
      select f.tid
      from (
        select m.ctid as tid from skipmq.message m
        where m.queue_id = v_old.queue_id and m.group_no is not null
        limit p_limit - v_count
        for no key update skip locked
      ) f
    ) h;
    if v_tids is not null then
      v_count := v_count + skipmq.settle(v_tids, 'purged');
    else
      delete from skipmq.message_group g
      where g.queue_id = v_old.queue_id and g.group_no = any (array(
        select o.group_no
        from skipmq.message_group o
        where o.queue_id = v_old.queue_id
        limit p_limit - v_count));
      get diagnostics v_groups = row_count;
      v_count := v_count + v_groups;
      if v_groups = 0 and v_old.retired_at < v_now - interval '1 hour'
        and not exists (select from skipmq.message m where m.queue_id = v_old.queue_id and m.group_no is null)
        and not exists (select from skipmq.message m where m.queue_id = v_old.queue_id and m.group_no is not null)
      then
        delete from skipmq.queue_count c where c.queue_id = v_old.queue_id;
        update skipmq.generation i set cleared_at = v_now where i.queue_id = v_old.queue_id;
      end if;
    end if;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
-- Does: gives the one clock of the broker, the database's. Tests may move it by the session setting
--   skipmq.clock_offset (an interval).
-- Called by: every function that compares times, once each; write_time.
-- Locks, in order: none.
-- Raises: what moved_clock raises.
-- Relies on index: none.
--
-- Without SET and SECURITY DEFINER, so that the planner puts the expression in the place of the call.
create function skipmq.clock() returns timestamptz
language sql volatile
as $$
  select case
    when coalesce(current_setting('skipmq.clock_offset', true), '') = '' then clock_timestamp()
    else skipmq.moved_clock()
  end
$$;
-- Does: sends copies of messages, whatever their state, to a queue of the same type, as new messages; says
--   for each by its place in p_ids: copied or missing.
-- Called by: the CopyMessages action; SQL users.
-- Locks, in order: those of send_messages or send_fifo_messages.
-- Raises: SQ005 when no queue has one of the generations, SQ007 when the queues are of different types.
-- Relies on index: message_pkey, queue_id.
create function skipmq.copy_messages(p_queue_id integer, p_ids bigint[], p_target integer, p_sender text default null)
returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_fifo boolean;
  v_copy record;
begin
  select q.fifo into v_fifo from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
  select array_agg(m.id) as ids, array_agg(m.new_id) as new_ids, array_agg(m.body) as bodies,
    array_agg(m.attributes) as attributes, array_agg(m.group_id) as groups, array_agg(m.trace_header) as traces
  into v_copy
  from (
    select m.*, gen_random_uuid() as new_id
    from unnest(p_ids) with ordinality u (id, place)
    cross join lateral (
      select m.id, m.body, m.attributes, m.group_id, m.trace_header
      from skipmq.message m
      where m.id = u.id and m.queue_id = p_queue_id
    ) m
    order by u.place
  ) m;
  if v_copy.ids is null then
    null;
  elsif v_fifo then
    perform skipmq.send_fifo_messages(
      p_target, v_copy.new_ids, v_copy.bodies, v_copy.attributes, v_copy.groups, v_copy.new_ids::text[],
      v_copy.traces, p_sender);
  else
    perform skipmq.send_messages(
      p_target, v_copy.new_ids, v_copy.bodies, v_copy.attributes,
      array_fill(null::integer, array[cardinality(v_copy.ids)]), v_copy.groups, v_copy.traces, p_sender);
  end if;
  return query
  select u.place, case when u.id = any (v_copy.ids) then 'copied' else 'missing' end
  from unnest(p_ids) with ordinality u (id, place)
  order by u.place;
end $$;
-- Does: counts all messages of a queue, from the sums, so that it costs nothing however many there are.
-- Called by: count_messages, bound_in_flight.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_count_pkey, queue_delta_at.
create function skipmq.count_all(p_queue_id integer) returns bigint
language sql stable
as $$
  select
    coalesce((select c.messages from skipmq.queue_count c where c.queue_id = p_queue_id), 0)
    + coalesce((
      select sum(d.change)
      from skipmq.queue_delta d
      where d.queue_id = p_queue_id and d.at >= (select c.counted_to - interval '10 seconds' from skipmq.cluster c)), 0)
$$;
-- Does: counts a queue's messages in flight (received and hidden), up to p_most.
-- Called by: count_messages, bound_in_flight.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, message_visible; for FIFO message_group_available, message_group_order.
create function skipmq.count_in_flight(p_queue_id integer, p_most integer default 120000) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_count integer;
begin
  if (select q.fifo from skipmq.queue q where q.queue_id = p_queue_id) then
    -- What was ever received lies at the front of its group.
    select count(*) into v_count
    from (
      select
      from (
        (select g.group_no, g.first_number
         from skipmq.message_group g
         where g.queue_id = p_queue_id and g.available_at > v_now)
        union all
        -- Where the first message of a group was shown again, later ones may still be in flight.
        (select g.group_no, g.first_number
         from skipmq.message_group g
         where g.queue_id = p_queue_id and g.available_at <= v_now
         order by g.available_at desc
         limit 1000)
      ) g
      cross join lateral (
        with recursive received as (
          (select m.sequence_number, m.visible_at, m.receive_count > m.receive_base as received
           from skipmq.message m
           where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number >= g.first_number
           order by m.sequence_number
           limit 1)
          union all
          select e.*
          from received r
          cross join lateral (
            select m.sequence_number, m.visible_at, m.receive_count > m.receive_base
            from skipmq.message m
            where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number > r.sequence_number
            order by m.sequence_number
            limit 1
          ) e
          where r.received
        )
        select from received r where r.received and r.visible_at > v_now
      ) m
      limit p_most
    ) f;
  else
    select count(*) into v_count
    from (
      select
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = any ('{0,1,2}') and m.group_no is null and m.visible_at > v_now
        and m.receive_count > m.receive_base
      limit p_most
    ) f;
  end if;
  return v_count;
end $$;
-- Does: counts a queue's messages: visible, in flight (received, hidden) and delayed (never received).
-- Called by: queue_statistics, add_move_task, the GetQueueAttributes action, `skipmq queue show`; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: those of count_all, message_visible; for FIFO message_group_available,
--   message_group_order, message_enqueued.
--
-- It reads the messages that are not visible, and at those past retention. The number of all comes from
-- the sums, so that what waits costs nothing however much it is.
create function skipmq.count_messages(p_queue_id integer)
returns table (visible bigint, in_flight bigint, delayed bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_horizon timestamptz;
  v_delay interval;
  v_fifo boolean;
  v_all bigint := skipmq.count_all(p_queue_id);
  v_expired bigint := 0;
begin
  select
    q.fifo, v_now - make_interval(secs => q.message_retention_period), make_interval(secs => q.delay_seconds)
  into v_fifo, v_horizon, v_delay
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo then
    in_flight := skipmq.count_in_flight(p_queue_id, 2147483647);
    -- A message that was never received is delayed from its arrival on. The orders make sure of the index:
    -- a plan from when the queue was empty would take any that begins with the queue.
    select count(*) filter (where m.fresh) into delayed
    from (
      select m.receive_count = m.receive_base as fresh
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > greatest(v_now - v_delay, v_horizon)
      order by m.enqueued_at
      limit 2147483647
    ) m;
    select count(*) filter (where not m.in_flight) into v_expired
    from (
      select m.visible_at > v_now and m.receive_count > m.receive_base as in_flight
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at <= v_horizon
      order by m.enqueued_at
      limit 10000
    ) m;
  else
    select
      count(*) filter (where m.receive_count > m.receive_base),
      count(*) filter (where m.receive_count = m.receive_base)
    into in_flight, delayed
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = any ('{0,1,2}') and m.group_no is null and m.visible_at > v_now;
    select count(*) into v_expired
    from (
      select
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = any ('{0,1,2}') and m.group_no is null and m.visible_at <= v_horizon
      limit 10000
    ) m;
  end if;
  visible := greatest(v_all - v_expired - in_flight - delayed, 0);
  return next;
end $$;
-- Does: gives how many days of the history ended more than p_keep ago and are there only because no export of
--   the last day is recorded that has all of them.
-- Called by: the janitor, for skipmq_history_days_unarchived.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: archived_day_pkey.
create function skipmq.count_unarchived_days(p_keep interval) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(*)::integer
  from (
    select to_date(right(c.relname, 8), 'YYYYMMDD'), -1
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'skipmq.history'::regclass and c.relname ~ '^history_[0-9]{8}$'
    union all
    select (h.settled_at at time zone 'UTC')::date, max(h.xid)
    from skipmq.history_default h
    group by 1
  ) d (day, xid)
  where d.day < ((skipmq.clock() - p_keep) at time zone 'UTC')::date
    and not exists (
      select from skipmq.archived_day a
      where a.day = d.day and a.to_xid > d.xid and a.archived_at > skipmq.clock() - interval '1 day')
$$;
-- Does: stores an access key, encrypted by the caller; forgets temporary ones that expired a day ago.
-- Called by: the command line, as the owner.
-- Locks, in order: access keys by id, the row of the cluster.
-- Raises: 23505 when there is a key of this id, 23514 for an account or a name that is none, SQ010 when the parent is
--   not there or is itself temporary.
-- Relies on index: access_key_pkey.
--
-- A key without a name is a user of its own, named by its id; one without rights may do everything. Temporary
-- credentials have what their parent has. Not for nodes.
create function skipmq.create_access_key(
  p_key_id text, p_account text, p_name text, p_secret bytea, p_master_key_id text,
  p_parent text default null, p_token_digest bytea default null, p_lifetime interval default null,
  p_rights jsonb default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_account text := p_account;
begin
  if p_parent is not null then
    select k.account into v_account from skipmq.access_key k
    where k.key_id = p_parent and k.parent is null and k.enabled and coalesce(k.expires_at > v_now, true)
    for key share;
    if not found then
      raise exception 'there is no enabled access key %', p_parent using errcode = 'SQ010';
    end if;
  end if;
  delete from skipmq.access_key k where k.parent is not null and k.expires_at < v_now - interval '1 day';
  insert into skipmq.access_key
    (key_id, account, name, parent, token_digest, rights, secret, master_key_id, created_at, expires_at)
  values
    (p_key_id, v_account, case when p_parent is null then coalesce(p_name, p_key_id) end, p_parent, p_token_digest,
     case when p_parent is null then coalesce(p_rights, '{"role": "admin"}') end, p_secret, p_master_key_id, v_now,
     v_now + p_lifetime);
  perform skipmq.announce_access_keys();
end $$;
-- Does: makes the history's partitions of today and the p_days after it (UTC), and moves what the default
--   partition caught of such a day into the day's own; gives the number made.
-- Called by: the installation, the janitor.
-- Locks, in order: row of the job, history and its default partition (briefly, for each day).
-- Raises: 55P03 when a reader holds the table for longer than the lock_timeout; try again later.
-- Relies on index: none.
create function skipmq.create_history_partitions(p_days integer default 7) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
  v_today date := (skipmq.clock() at time zone 'UTC')::date;
  v_day date;
  v_name text;
  v_from timestamptz;
  v_to timestamptz;
  v_count integer := 0;
begin
  perform skipmq.hold_job('create_history_partitions', true);
  for v_day in select v_today + n from generate_series(0, p_days) n loop
    v_name := 'history_' || to_char(v_day, 'YYYYMMDD');
    continue when to_regclass('skipmq.' || v_name) is not null;
    v_from := v_day::timestamp at time zone 'UTC';
    v_to := (v_day + 1)::timestamp at time zone 'UTC';
    execute format('create table skipmq.%I (like skipmq.history including all)', v_name);
    lock table skipmq.history_default in access exclusive mode;
    execute format(
      'with caught as (
         delete from skipmq.history_default h where h.settled_at >= $1 and h.settled_at < $2 returning h.*)
       insert into skipmq.%I select c.* from caught c', v_name) using v_from, v_to;
    execute format(
      'alter table skipmq.history attach partition skipmq.%I for values from (%L) to (%L)',
      v_name, v_from, v_to);
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;
-- Does: creates a queue, or finds the one of that name whose attributes equal those given. A name that
--   ends in .fifo makes a FIFO queue.
-- Called by: the CreateQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ002 when an attribute differs, SQ003 within p_cooldown of the deletion of the same name.
-- Relies on index: queue_pkey, generation_name.
create function skipmq.create_queue(
  p_name text,
  p_attributes jsonb default '{}',
  p_tags jsonb default '{}',
  p_account text default '000000000000',
  p_region text default 'us-east-1',
  p_history_mode text default 'metadata',
  p_cooldown interval default '60 seconds'
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_id integer;
  v_queue skipmq.queue;
  v_different text;
begin
  if exists (
    select from skipmq.generation g
    where g.account = p_account and g.region = p_region and g.name = p_name
      and g.retired_at > v_now - p_cooldown and g.retired_as = 'deleted')
    and not exists (
      select from skipmq.queue q where q.account = p_account and q.region = p_region and q.name = p_name)
  then
    raise exception 'You must wait % seconds after deleting a queue before you can create another with the same name.',
      extract(epoch from p_cooldown)::integer using errcode = 'SQ003';
  end if;

  insert into skipmq.queue (
    account, region, name, queue_id, fifo, history_mode, tags, created_at, modified_at)
  select p_account, p_region, p_name, n, p_name like '%.fifo', p_history_mode, p_tags, v_now, v_now
  from nextval('skipmq.queue_id_seq') n
  on conflict do nothing
  returning queue_id into v_id;

  if v_id is not null then
    perform skipmq.set_queue_attributes(v_id, p_attributes);
    insert into skipmq.generation (queue_id, account, region, name, history_mode, created_at)
    select q.queue_id, q.account, q.region, q.name, q.history_mode, v_now
    from skipmq.queue q
    where q.queue_id = v_id;
    return v_id;
  end if;

  select q.* into v_queue from skipmq.queue q
  where q.account = p_account and q.region = p_region and q.name = p_name
  for key share;
  if not found then -- It was deleted in between.
    return skipmq.create_queue(p_name, p_attributes, p_tags, p_account, p_region, p_history_mode, p_cooldown);
  end if;
  select a.key into v_different
  from jsonb_each_text(p_attributes) a
  where a.value is distinct from skipmq.queue_attributes(v_queue) ->> a.key
  order by a.key
  limit 1;
  if v_different is not null then
    raise exception 'A queue already exists with the same name and a different value for attribute %', v_different
      using errcode = 'SQ002';
  end if;
  return v_queue.queue_id;
end $$;
-- Does: gives what an operator who is paged asks of the server first, in one row: where it is (null: a Unix socket),
--   its version and the revision of the schema, since when it runs, its timeline, since when the oldest snapshot is
--   held; the standbys that are connected, with their lag in bytes and seconds; the programs of SkipMQ that have
--   sessions in this database, with their number.
-- Called by: the DescribeDatabase action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- may_see is false where the owner of the schema is not in pg_monitor: then it sees how many standbys there are,
-- nothing of them, and no addresses and times of sessions. Source: PostgreSQL manual, 27.2.3 pg_stat_activity; 27.2.4
-- pg_stat_replication.
create function skipmq.database_overview(
  out host text, out port integer, out version text, out revision text, out started_at timestamptz,
  out now_at timestamptz, out timeline bigint, out oldest_snapshot float8, out owner text, out may_see boolean,
  out standby_count integer, out standbys jsonb, out sessions jsonb
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  host := host(inet_server_addr());
  port := coalesce(inet_server_port(), current_setting('port')::integer);
  version := split_part(current_setting('server_version'), ' ', 1);
  -- Where the schema comes from sql/ itself there is no revision.
  if has_table_privilege(to_regclass('skipmq.alembic_version'), 'select') then
    revision := (select v.version_num from skipmq.alembic_version v);
  end if;
  started_at := pg_postmaster_start_time();
  now_at := clock_timestamp();
  timeline := skipmq.timeline();
  oldest_snapshot := extract(epoch from now_at - (select s.began from skipmq.oldest_snapshot() s));
  owner := current_user;
  may_see := pg_has_role(current_user, 'pg_read_all_stats', 'usage');
  select
    count(*),
    coalesce(jsonb_agg(jsonb_build_object(
      'name', r.application_name, 'address', host(r.client_addr), 'state', r.state, 'sync', r.sync_state,
      'bytes', greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn), 0),
      'seconds', coalesce(extract(epoch from r.replay_lag), 0))
      order by r.sync_state = 'async', r.application_name, r.pid) filter (where may_see), '[]')
  into standby_count, standbys
  from pg_stat_replication r;
  -- The name of a session shows to everybody, its address and times only to who may see them.
  select coalesce(jsonb_agg(to_jsonb(s) order by s.program, s.address), '[]')
  into sessions
  from (
    select
      a.application_name as program, host(a.client_addr) as address, count(*) as number,
      extract(epoch from now_at - min(a.backend_start)) as seconds
    from pg_stat_activity a
    where a.datname = current_database() and a.application_name like 'skipmq %'
    group by a.application_name, a.client_addr
    order by a.application_name, a.client_addr
    limit 200
  ) s;
end $$;
-- Does: says in one word what a node can do with this database: writable; read_only (a standby, or a primary that takes
--   no writes); no_privilege (the caller may not call what nodes call); disk_full (a node found the disk full and
--   watches it).
-- Called by: nodes, once a second each; `skipmq doctor`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: pg_proc_proname_args_nsp_index.
--
-- With the caller's rights: it is about these. A full disk is known by the lock of a session that watches it
-- (watch_disk): nothing can be written that says so. Any login may take such a lock; that of one which may not watch
-- says nothing.
create function skipmq.database_state() returns text
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select case
    when current_setting('transaction_read_only') = 'on' then 'read_only'
    when exists (
      select
      from pg_proc p
      where p.pronamespace = 'skipmq'::regnamespace
        and p.proname = any (array[
          'bound_in_flight', 'cancel_move_task', 'change_fifo_visibility', 'change_visibility', 'claim_fifo_messages',
          'copy_messages', 'count_messages', 'create_queue', 'delete_fifo_messages', 'delete_messages', 'delete_queue', 'get_queue',
          'list_move_tasks', 'list_queues', 'low_watermark', 'move_messages', 'peek_messages', 'purge_queue',
          'receipt_keys', 'receive_fifo_attempt', 'receive_messages', 'replication',
          'return_fifo_messages', 'return_messages', 'send_fifo_messages', 'send_messages', 'set_queue_attributes',
          'start_move_task', 'tag_queue', 'untag_queue'])
        and not has_function_privilege(p.oid, 'execute'))
      then 'no_privilege'
    when exists (
      select
      from pg_locks l
      join pg_stat_activity a on a.pid = l.pid
      join pg_proc p on p.pronamespace = 'skipmq'::regnamespace and p.proname = 'watch_disk'
        and has_function_privilege(a.usesysid, p.oid, 'execute')
      where l.locktype = 'advisory' and l.objsubid = 2
        and l.database = (select d.oid from pg_database d where d.datname = current_database())
        and l.classid = hashtext('skipmq')::oid and l.objid = hashtext('disk_full')::oid)
      then 'disk_full'
    else 'writable'
  end;
$$;
-- Does: gives what an operator watches of the database, as names with a label and a value: how far each standby is
--   behind (in bytes, and in seconds as far as it says), how much WAL was ever written, sizes in bytes, live and dead
--   rows of the tables that change with every message, the age in transactions of the oldest snapshot and of the
--   oldest frozen transaction number, sessions and how many there may be.
-- Called by: the janitor, for /metrics.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Standbys and others' snapshots are left out where the owner of the schema is not in pg_monitor: it cannot see them.
-- Source: PostgreSQL manual, 27.2.4 pg_stat_replication; 24.1.5 Preventing Transaction ID Wraparound Failures.
create function skipmq.database_statistics()
returns table (name text, label text, value float8)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
    return query
    select s.name, r.application_name, s.value
    from pg_stat_replication r
    cross join lateral (values
      ('standby lag bytes', pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn)::float8),
      ('standby lag', coalesce(extract(epoch from r.replay_lag), 0)::float8)) s (name, value)
    where r.state = 'streaming';

    return query
    select 'oldest xmin', '', coalesce(max(greatest(age(a.backend_xmin), age(a.backend_xid))), 0)::float8
    from pg_stat_activity a
    where a.pid <> pg_backend_pid();
  end if;

  return query
  select s.name, s.label, s.value
  from (values
    ('wal bytes', '', pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8),
    ('database bytes', '', pg_database_size(current_database())::float8),
    ('table bytes', 'message', pg_total_relation_size('skipmq.message')::float8),
    ('table bytes', 'history', (
      select sum(pg_total_relation_size(p.relid))::float8 from pg_partition_tree('skipmq.history') p)),
    ('frozen age', '', (
      select age(d.datfrozenxid)::float8 from pg_database d where d.datname = current_database())),
    ('sessions', '', (select sum(d.numbackends)::float8 from pg_stat_database d)),
    ('most sessions', '', current_setting('max_connections')::float8)) s (name, label, value);

  return query
  select s.name, t.relname::text, s.value
  from pg_stat_user_tables t
  cross join lateral (values
    ('live rows', t.n_live_tup::float8), ('dead rows', t.n_dead_tup::float8)) s (name, value)
  where t.schemaname = 'skipmq' and t.relname in ('message', 'message_group', 'deduplication', 'queue_delta');
end $$;
-- Does: lists the queues, by their ARNs, that messages of a dead-letter queue came from and that there are, as far as its
--   first p_limit messages say.
-- Called by: nodes that check signatures, before a redrive without a destination.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible, message_group_order, queue_pkey.
create function skipmq.dead_letter_origins(p_source_arn text, p_limit integer default 100000) returns setof text
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  with queue as materialized (
    select skipmq.queue_of_arn(p_source_arn) as id
  ),
  origin as (
    select m.dead_letter_source as arn
    from (
      (select m.dead_letter_source
      from skipmq.message m
      where m.queue_id = (select q.id from queue q) and m.group_no is null
      limit p_limit)
      union all
      (select m.dead_letter_source
      from skipmq.message m
      where m.queue_id = (select q.id from queue q) and m.group_no is not null
      limit p_limit)
    ) m
    group by m.dead_letter_source
  )
  select o.arn from origin o where skipmq.queue_of_arn(o.arn) is not null order by o.arn
$$;
-- Does: gives the present generation of a queue's dead-letter queue; null when it has none, that was deleted, or
--   it is the queue itself.
-- Called by: receive_messages, claim_fifo_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, queue_pkey.
create function skipmq.dead_letter_queue(p_queue_id integer) returns integer
language plpgsql stable
as $$
begin
  return (
    select d.queue_id
    from skipmq.queue q
    join skipmq.queue d on d.account = q.dead_letter_account and d.region = q.region and d.name = q.dead_letter_name
    where q.queue_id = p_queue_id and d.queue_id <> p_queue_id);
end $$;
-- Does: gives the dead-letter queues of an account and region, each with what waits in it, for how many seconds the
--   oldest has, what arrived in the last p_minutes minutes (also what was sent or moved there otherwise), and the
--   first p_sources queues that name it, with what each moved to a dead-letter queue meanwhile. First those that
--   queues name and that are not there (queue_id is null), then those with the most messages, up to p_limit after
--   p_offset. One row more, whose name is null, has the sums of all that match and are not given.
-- Called by: the ListDeadLetterQueues action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_dead_letter, queue_pkey, queue_count_pkey, queue_minute_pkey, and those of oldest_message.
--
-- p_search is a part of the name of the queue or of one that names it. What waits costs nothing however much it is.
create function skipmq.dead_letter_queues(
  p_account text, p_region text, p_search text default '', p_limit integer default 50, p_offset integer default 0,
  p_minutes integer default 360, p_sources integer default 20
) returns table (
  name text, queue_id integer, queues bigint, fifo boolean, policy text, next_name text, messages bigint,
  oldest float8, arrived bigint, source_count bigint, sources jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_from timestamptz := date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes);
begin
  return query
  with named as materialized (
    select s.dead_letter_name as name, count(*) as sources
    from skipmq.queue s
    where s.dead_letter_account = p_account and s.region = p_region and s.dead_letter_name is not null
    group by s.dead_letter_name
    having p_search = '' or strpos(lower(s.dead_letter_name), lower(p_search)) > 0
      or bool_or(strpos(lower(s.name), lower(p_search)) > 0)
  ), matching as materialized (
    select
      n.name, q.queue_id, q.fifo, q.policy, q.dead_letter_name as next_name, n.sources,
      coalesce(greatest(c.messages, 0), 0) as messages
    from named n
    left join skipmq.queue q on q.account = p_account and q.region = p_region and q.name = n.name
    left join skipmq.queue_count c on c.queue_id = q.queue_id
  ), given as materialized (
    select m.*, row_number() over () as place
    from (
      select m.*
      from matching m
      order by m.queue_id is not null, m.messages desc, m.name
      limit p_limit offset p_offset
    ) m
  )
  (
    select
      g.name, g.queue_id, 1::bigint, g.fifo, g.policy, g.next_name, g.messages,
      case when g.messages > 0 then skipmq.oldest_message(g.queue_id, g.fifo) end,
      (select coalesce(sum(m.sent), 0)::bigint
       from skipmq.queue_minute m
       where m.queue_id = g.queue_id and m.minute > v_from),
      g.sources, s.sources
    from given g
    cross join lateral (
      select
        jsonb_agg(jsonb_build_object(
          'name', s.name, 'most', s.max_receive_count, 'policy', s.policy, 'messages',
          (select coalesce(greatest(c.messages, 0), 0) from skipmq.queue_count c where c.queue_id = s.queue_id),
          'moved', (
            select coalesce(sum(m.dead_lettered), 0)
            from skipmq.queue_minute m
            where m.queue_id = s.queue_id and m.minute > v_from)) order by s.name) as sources
      from (
        select s.name, s.max_receive_count, s.policy, s.queue_id
        from skipmq.queue s
        where s.dead_letter_account = p_account and s.region = p_region and s.dead_letter_name = g.name
        order by s.name
        limit p_sources
      ) s
    ) s
    order by g.place
  )
  union all
  select
    null, null, count(*), null, null, null, coalesce(sum(m.messages), 0)::bigint, null, null,
    coalesce(sum(m.sources), 0)::bigint, null
  from matching m
  where not exists (select from given g where g.name = m.name);
end $$;
-- Does: lists the names of the queues whose redrive policy names a queue, from the one after p_after on.
-- Called by: the ListDeadLetterSourceQueues action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_dead_letter.
create function skipmq.dead_letter_sources(
  p_account text,
  p_region text,
  p_name text,
  p_after text default '',
  p_limit integer default 1000
) returns setof text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.name
  from skipmq.queue q
  where q.dead_letter_account = p_account and q.region = p_region and q.dead_letter_name = p_name
    and q.name > p_after collate "C"
  order by q.name
  limit p_limit
$$;
-- Does: gives the deduplication ids of messages: those that they have, and where one has none and the queue takes it
--   from the body, the body's.
-- Called by: send_fifo_messages, for SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id.
create function skipmq.deduplication_ids(p_queue_id integer, p_deduplication_ids text[], p_bodies text[]) returns text[]
language sql stable
as $$
  select array_agg(coalesce(u.deduplication_id, case when q.content_based_deduplication then
    encode(sha256(convert_to(u.body, 'UTF8')), 'hex') end) order by u.place)
  from skipmq.queue q
  cross join unnest(p_deduplication_ids, p_bodies) with ordinality u (deduplication_id, body, place)
  where q.queue_id = p_queue_id
$$;
-- Does: deletes messages of a FIFO queue that are still in flight by the receive named by
--   p_receive_counts, with a row of history each, and says for each by its place in the arrays: deleted,
--   missing (settled before, or purged), expired (visible again, or received since) or held (nothing was
--   done, since another transaction holds the group, and p_waits is false).
-- Called by: the DeleteMessage and DeleteMessageBatch actions; SQL users.
-- Locks, in order: group rows by number, message rows by id.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is not FIFO.
-- Relies on index: message_pkey, queue_id, and those of lock_groups, settle and refresh_groups.
--
-- p_received_at is the time of the receive that the receipt stands for (null: not checked); delete_messages
-- says why.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.delete_fifo_messages(
  p_queue_id integer, p_ids bigint[], p_receive_counts integer[], p_commit text default null,
  p_received_at timestamptz[] default null, p_waits boolean default true
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_groups bigint[];
  v_outcomes text[];
  v_ids bigint[];
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  v_groups := skipmq.lock_groups(p_queue_id, p_ids, p_waits);
  select array_agg(f.outcome order by f.place), array_agg(f.id order by f.id) filter (where f.outcome = 'deleted')
  into v_outcomes, v_ids
  from (
    select u.place, u.id, case
      when m.queue_id = p_queue_id and not p_waits and m.group_no = any (v_groups) is not true then 'held'
      when m.queue_id = p_queue_id and m.receive_count = u.receive_count and m.visible_at > v_now
        and (u.received_at is null or m.first_received_at <= u.received_at) then 'deleted'
      when exists (select from skipmq.queue q where q.queue_id = m.queue_id) then 'expired'
      -- Settled, or purged and not cleared yet.
      else 'missing'
    end as outcome
    from unnest(p_ids, p_receive_counts, p_received_at) with ordinality u (id, receive_count, received_at, place)
    left join lateral (
      select m.queue_id, m.group_no, m.receive_count, m.visible_at, m.first_received_at
      from skipmq.message m
      where m.id = u.id
    ) m on true
  ) f;
  if not exists (select from skipmq.queue q where q.queue_id = p_queue_id and q.fifo) then
    perform skipmq.check_generation(p_queue_id, true);
  end if;
  if v_ids is not null then
    perform skipmq.settle(
      array(
        select m.tid
        from unnest(v_ids) u (id)
        cross join lateral (
          select m.ctid as tid from skipmq.message m where m.id = u.id and m.queue_id = p_queue_id for no key update
        ) m),
      'deleted');
  end if;
  perform skipmq.refresh_groups(p_queue_id, v_groups);
  return query
  select u.place, u.outcome from unnest(v_outcomes) with ordinality u (outcome, place) order by u.place;
end $$;
-- Does: deletes a message of the queue of that name, standard or FIFO, that is still at the receive named by
--   p_receive_count, and says whether it did: false when it was settled before, or received again.
-- Called by: SQL users.
-- Locks, in order: those of check_grant, then of delete_messages or delete_fifo_messages.
-- Raises: what check_grant raises; SQ001 when there is no such queue, SQ005 when it is purged or deleted in this
--   instant.
-- Relies on index: queue_pkey, and those of the functions it calls.
create function skipmq.delete_message(
  p_queue text,
  p_id bigint,
  p_receive_count integer,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id integer;
begin
  perform skipmq.check_grant('receive', p_queue, p_account, p_region);
  v_queue_id := skipmq.queue_id(p_queue, p_account, p_region);
  if p_queue collate "C" like '%.fifo' then
    return (
      select d.outcome = 'deleted'
      from skipmq.delete_fifo_messages(v_queue_id, array[p_id], array[p_receive_count]) d);
  end if;
  return skipmq.delete_messages(v_queue_id, array[p_id], array[p_receive_count]) = 1;
end $$;
-- Does: deletes messages that are still at the receive named by p_receive_counts, with a row of history
--   each as the queue's history mode says; gives their number. Others are passed over: an old receipt
--   does nothing, and deleting twice is no error.
-- Called by: the DeleteMessage and DeleteMessageBatch actions; SQL users.
-- Locks, in order: message rows by id.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is FIFO.
-- Relies on index: message_pkey, queue_id.
--
-- The delete finds its rows by key, not by ctid: a change of visibility that commits meanwhile moves the
-- row, which is then found again and deleted; one that was received again no longer matches its receipt.
-- p_received_at is the time of the receive that the receipt stands for (null: not checked). A server that lost
-- messages gives their ids again: what was first received after that time is another message.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.delete_messages(
  p_queue_id integer, p_ids bigint[], p_receive_counts integer[], p_commit text default null,
  p_received_at timestamptz[] default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_xid bigint := pg_current_xact_id()::text::bigint;
  v_count integer;
  v_mode text;
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  select q.history_mode into v_mode from skipmq.queue q where q.queue_id = p_queue_id and not q.fifo;
  if not found then
    perform skipmq.check_generation(p_queue_id, false);
  end if;
  with gone as (
    delete from skipmq.message m
    using (
      select u.* from unnest(p_ids, p_receive_counts, p_received_at) u (id, receive_count, received_at)
      order by u.id
    ) r
    where m.id = r.id and m.receive_count = r.receive_count and m.queue_id = p_queue_id
      and (r.received_at is null or m.first_received_at <= r.received_at)
    returning m.*
  ), kept as (
    -- As write_history; in this statement, since every delete would pay for another.
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, v_xid, g.id, g.queue_id, g.receive_count - g.receive_base,
      octet_length(g.body), coalesce(octet_length(g.attributes), 0), g.message_id, 'deleted', g.group_id,
      g.deduplication_id, g.sender, g.trace_header,
      case when v_mode = 'full' then g.attributes end,
      case when v_mode = 'full' then g.body end,
      nullif(current_setting('application_name'), '')
    from gone g
    where v_mode <> 'off'
  )
  select count(*) into v_count from gone;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change, event) values (v_now, p_queue_id, -v_count, 'deleted');
  end if;
  return v_count;
end $$;
-- Does: deletes messages that are not in flight, each leaving a row of history as a delete by receipt does; says for each
--   by its place in p_ids: deleted, missing or in-flight.
-- Called by: the DeletePickedMessages action; SQL users.
-- Locks, in order: for FIFO group rows by number; message rows by id.
-- Raises: SQ005 when no queue has the generation.
-- Relies on index: queue_id, and those of lock_picked and settle; for FIFO those of lock_groups and refresh_groups.
create function skipmq.delete_picked_messages(p_queue_id integer, p_ids bigint[])
returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_fifo boolean;
  v_groups bigint[];
  v_free bigint[];
  v_held bigint[];
  v_tids tid[];
begin
  select q.fifo into v_fifo from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  elsif v_fifo then
    v_groups := skipmq.lock_groups(p_queue_id, p_ids);
  end if;
  select l.free, l.held, l.tids into v_free, v_held, v_tids from skipmq.lock_picked(p_queue_id, p_ids, v_now) l;
  if v_free is not null then
    perform skipmq.settle(v_tids, 'deleted');
    if v_fifo then
      perform skipmq.refresh_groups(p_queue_id, v_groups);
    end if;
  end if;
  return query
  select u.place, case
    when u.id = any (v_free) then 'deleted' when u.id = any (v_held) then 'in-flight' else 'missing' end
  from unnest(p_ids) with ordinality u (id, place)
  order by u.place;
end $$;
-- Does: deletes a queue at once and leaves its messages to the janitor.
-- Called by: the DeleteQueue action; SQL users.
-- Locks, in order: advisory lock of the generation (SQL users' transactions that sent to it are over then), queue row,
--   generation row.
-- Raises: SQ005 when no queue has this generation.
-- Relies on index: queue_id, generation_pkey.
create function skipmq.delete_queue(p_queue_id integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_mode text;
begin
  perform pg_advisory_xact_lock(hashtext('skipmq.queue'), p_queue_id);
  delete from skipmq.queue q where q.queue_id = p_queue_id returning q.history_mode into v_mode;
  if not found then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
  update skipmq.generation g
  set retired_at = skipmq.clock(), retired_as = 'deleted', history_mode = v_mode
  where g.queue_id = p_queue_id;
end $$;
-- Does: reads up to p_limit visible messages at the head of a standard queue and puts those of the noisy tenants
--   into shard 1, where they keep their order; gives their number.
-- Called by: clear_head, mark_noisy.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.deprioritise(p_queue_id integer, p_noisy text[], p_to timestamptz, p_limit integer)
returns integer
language plpgsql volatile
as $$
declare
  v_count integer;
begin
  with head as materialized (
    select m.ctid as tid, m.group_id
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at > '-infinity' and m.visible_at <= p_to
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  )
  update skipmq.message m set shard = 1
  from head h
  where m.ctid = h.tid and h.group_id = any (p_noisy);
  get diagnostics v_count = row_count;
  return v_count;
end $$;
-- Does: drops the history's partitions whose last day ended more than p_keep ago, and deletes what the
--   default partition has of such days; gives the number of partitions. With p_archived only of days that an export has
--   recorded within the last day, when it had seen their files, and only if nothing was settled in them since.
-- Called by: the janitor.
-- Locks, in order: row of the job (when it is held elsewhere nothing is done), the partition
--   and the history table, briefly.
-- Raises: 22023 when p_keep is less than a day; 55P03 when a reader holds a partition for longer than the
--   lock_timeout: try again later.
-- Relies on index: history_xid, archived_day_pkey.
create function skipmq.drop_history_partitions(p_keep interval, p_archived boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  v_oldest date := ((skipmq.clock() - p_keep) at time zone 'UTC')::date;
  v_seen timestamptz := skipmq.clock() - interval '1 day';
  v_day date;
  v_name text;
  v_to bigint;
  v_late boolean;
  v_names text[] := '{}';
begin
  if p_keep < interval '1 day' then
    raise exception 'the history is kept for a day at least' using errcode = '22023';
  end if;
  if not skipmq.hold_job('drop_history_partitions') then
    return 0;
  end if;
  for v_day, v_name, v_to in
    select d.day, c.relname, a.to_xid
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
    left join skipmq.archived_day a on a.day = d.day
    where i.inhparent = 'skipmq.history'::regclass
      and c.relname ~ '^history_[0-9]{8}$'
      and d.day < v_oldest
      and (not p_archived or a.archived_at > v_seen)
    order by 1
  loop
    if p_archived then
      -- Whoever still settles something in it has ended then; who comes later finds the default partition.
      execute format('lock table skipmq.%I in access exclusive mode', v_name);
      execute format('select exists (select from skipmq.%I h where h.xid >= $1)', v_name)
      into v_late using v_to;
      if v_late then
        delete from skipmq.archived_day a where a.day = v_day;
        continue;
      end if;
    end if;
    v_names := v_names || v_name;
  end loop;
  delete from skipmq.history_default h
  where h.settled_at < v_oldest::timestamp at time zone 'UTC'
    and (not p_archived or exists (
      select from skipmq.archived_day a
      where a.day = (h.settled_at at time zone 'UTC')::date and h.xid < a.to_xid and a.archived_at > v_seen));
  -- Last, and at once: from here on whoever settles a message waits for this to end.
  foreach v_name in array v_names loop
    execute format('drop table skipmq.%I', v_name);
  end loop;
  update skipmq.archived_day a set dropped = true
  where not a.dropped and a.day < v_oldest
    and to_regclass('skipmq.history_' || to_char(a.day, 'YYYYMMDD')) is null
    and not exists (
      select from skipmq.history_default h
      where h.settled_at >= a.day::timestamp at time zone 'UTC'
        and h.settled_at < (a.day + 1)::timestamp at time zone 'UTC');
  return cardinality(v_names);
end $$;
-- Does: ends the sessions in this database of skipmq_reader, and of its members, whose transaction is older than
--   p_limit and has a snapshot or wrote: until they end nothing can be cleared up. Never those of superusers, nor of
--   who may act as the owner of the schema or as skipmq_node. Gives each with its role, and how old it was.
-- Called by: the janitor.
-- Locks, in order: none.
-- Raises: 42501 when there was nobody to end and the owner of the function may not see or end the sessions of some
--   of these roles: grant it those.
-- Relies on index: none.
create function skipmq.end_long_snapshots(p_limit interval)
returns table (pid integer, role name, application_name text, held interval)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_owner oid := (select n.nspowner from pg_namespace n where n.nspname = 'skipmq');
  v_everybody boolean := pg_has_role('pg_signal_backend', 'usage') and pg_has_role('pg_read_all_stats', 'usage');
  v_mine boolean;
  v_holds boolean;
  v_ended boolean := false;
  v_others name[] := '{}';
  v_names text;
begin
  for pid, role, application_name, held, v_holds, v_mine in
    select a.pid, r.rolname, a.application_name, clock_timestamp() - a.xact_start,
      a.backend_type = 'client backend' and (a.backend_xmin is not null or a.backend_xid is not null),
      v_everybody or pg_has_role(r.oid, 'usage')
    from pg_stat_activity a
    join pg_roles r on r.oid = a.usesysid
    where a.datname = current_database()
      -- Of a role that does not exist nobody is a member (null), of all others every superuser is.
      and pg_has_role(r.oid, to_regrole('skipmq_reader'), 'member')
      and pg_has_role(r.oid, to_regrole('skipmq_node'), 'member') is not true
      and not pg_has_role(r.oid, v_owner, 'member')
  loop
    if not v_mine then
      v_others := v_others || role;
    elsif v_holds and held > p_limit then
      -- Not in the query: the planner may test that first, of every session.
      if pg_terminate_backend(pid) then
        v_ended := true;
        return next;
      end if;
    end if;
  end loop;
  if not v_ended and v_others <> '{}' then
    select string_agg(distinct quote_ident(o.role), ', ') into v_names from unnest(v_others) o (role);
    raise exception '% may not end sessions of % that hold up the database', current_user, v_names
      using errcode = '42501', hint = format('grant %s to %I', v_names, current_user);
  end if;
end $$;
-- Does: notes that a session of the console, which would last for p_lasts (a day at most), was signed out of, and notifies
--   all nodes.
-- Called by: nodes that check signatures.
-- Locks, in order: the ended session, the row of the cluster.
-- Raises: 23514 for what is no digest.
-- Relies on index: ended_session_pkey.
create function skipmq.end_session(p_digest bytea, p_lasts interval) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into skipmq.ended_session (digest, until)
  values (p_digest, skipmq.clock() + least(p_lasts, interval '1 day'))
  on conflict do nothing;
  if found then
    perform skipmq.announce_access_keys();
  end if;
end $$;
-- Does: gives the digests of the console's sessions that were signed out of and would otherwise still last.
-- Called by: nodes that check signatures, when the keys or these have changed.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- A minute longer: nodes estimate the time.
create function skipmq.ended_sessions() returns setof bytea
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select e.digest from skipmq.ended_session e where e.until > skipmq.clock() - interval '1 minute'
$$;
-- Does: takes messages out of a queue, as a purge does, and leaves no row of history; gives their number.
-- Called by: `skipmq analytics forget`, as the owner.
-- Locks, in order: group rows by number (a FIFO queue), messages by id.
-- Raises: nothing.
-- Relies on index: message_pkey, message_group_pkey, history_xid.
--
-- With the caller's rights: only the owner may erase.
create function skipmq.erase_messages(p_queue_id integer, p_ids bigint[]) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_groups bigint[] := skipmq.lock_groups(p_queue_id, p_ids);
  v_count integer;
begin
  v_count := skipmq.settle(
    array(
      select m.ctid from skipmq.message m
      where m.id = any (p_ids) and m.queue_id = p_queue_id
      order by m.id
      for update),
    'purged');
  delete from skipmq.history h
  where h.id = any (p_ids) and h.xid = pg_current_xact_id()::text::bigint;
  if v_groups is not null then
    perform skipmq.refresh_groups(p_queue_id, v_groups);
  end if;
  return v_count;
end $$;
-- Does: deletes records of the audit log that are older than p_keep, and than a day, of the p_limit first ones; gives
--   their number.
-- Called by: the janitor.
-- Locks, in order: row of the job (when it is held elsewhere nothing is done), audit records.
-- Raises: nothing.
-- Relies on index: audit_record_pkey.
create function skipmq.expire_audit_records(p_keep interval, p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before timestamptz := skipmq.clock() - greatest(p_keep, interval '1 day');
  v_deleted integer;
begin
  if not skipmq.hold_job('expire_audit_records') then
    return 0;
  end if;
  -- Ids grow with time, but for a second or so: the first rows are the oldest.
  delete from skipmq.audit_record r
  where r.id = any (array(select o.id from skipmq.audit_record o order by o.id limit p_limit))
    and r.recorded_at < v_before;
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;
-- Does: forgets up to p_limit deduplication ids, and as many receive attempts, after their five minutes
--   and one more; gives their number.
-- Called by: the janitor.
-- Locks, in order: row of the job (when it is held elsewhere nothing is done), deduplication
--   rows, attempts; skipping those that others hold.
-- Raises: nothing.
-- Relies on index: deduplication_expires, receive_attempt_received.
--
-- The minute more is for a send that found an id known a moment before its end: the answer is read after.
create function skipmq.expire_deduplication(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_ids integer;
  v_attempts integer;
begin
  if not skipmq.hold_job('expire_deduplication') then
    return 0;
  end if;
  delete from skipmq.deduplication d
  where d.ctid = any (array(
    select o.ctid
    from skipmq.deduplication o
    where o.expires_at <= v_now - interval '1 minute'
    order by o.expires_at
    limit p_limit
    for update skip locked));
  get diagnostics v_ids = row_count;
  delete from skipmq.receive_attempt a
  where a.ctid = any (array(
    select o.ctid
    from skipmq.receive_attempt o
    where o.received_at <= v_now - interval '6 minutes'
    order by o.received_at
    limit p_limit
    for update skip locked));
  get diagnostics v_attempts = row_count;
  return v_ids + v_attempts;
end $$;
-- Does: forgets up to p_limit ended sessions that would be over by now anyway; gives their number.
-- Called by: the janitor.
-- Locks, in order: ended sessions, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.expire_ended_sessions(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before timestamptz := skipmq.clock() - interval '1 minute';
  v_deleted integer;
begin
  delete from skipmq.ended_session e
  where e.digest = any (array(
    select o.digest from skipmq.ended_session o where o.until <= v_before limit p_limit for update skip locked));
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;
-- Does: settles up to p_limit messages of a FIFO queue that are past its retention period (enqueued by
--   p_horizon) and not in flight; gives their number.
-- Called by: expire_messages.
-- Locks, in order: group rows, skipping those that others hold; message rows.
-- Raises: nothing.
-- Relies on index: message_enqueued, message_group_pkey, message_pkey.
create function skipmq.expire_fifo(p_queue_id integer, p_horizon timestamptz, p_limit integer) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_ids bigint[];
  v_groups bigint[];
  v_tids tid[];
  v_count integer := 0;
begin
  select array_agg(m.id), array_agg(distinct m.group_no) into v_ids, v_groups
  from (
    select m.id, m.group_no
    from skipmq.message m
    where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at <= p_horizon
      and (m.visible_at <= v_now or m.receive_count = m.receive_base)
    order by m.enqueued_at
    limit p_limit
  ) m;
  if v_ids is null then
    return 0;
  end if;
  select array_agg(l.group_no) into v_groups
  from (select u.group_no from unnest(v_groups) u (group_no) order by u.group_no) u
  cross join lateral (
    select g.group_no
    from skipmq.message_group g
    where g.queue_id = p_queue_id and g.group_no = u.group_no
    for no key update skip locked
  ) l;
  select array_agg(m.tid) into v_tids
  from unnest(v_ids) u (id)
  cross join lateral (
    select m.ctid as tid
    from skipmq.message m
    where m.id = u.id and m.queue_id = p_queue_id and m.group_no = any (v_groups)
      and m.enqueued_at <= p_horizon and (m.visible_at <= v_now or m.receive_count = m.receive_base)
  ) m;
  if v_tids is not null then
    v_count := skipmq.settle(v_tids, 'expired');
  end if;
  perform skipmq.refresh_groups(p_queue_id, v_groups);
  return v_count;
end $$;
-- Does: settles up to p_limit messages that are past their queue's retention period; gives their number.
-- Called by: the janitor.
-- Locks, in order: row of the job (when it is held elsewhere nothing is done), group rows and message rows.
-- Raises: nothing.
-- Relies on index: message_visible, and those of expire_fifo.
create function skipmq.expire_messages(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queue record;
  v_count integer := 0;
begin
  if not skipmq.hold_job('expire_messages') then
    return 0;
  end if;
  for v_queue in
    select q.queue_id, q.fifo, q.tenants, v_now - make_interval(secs => q.message_retention_period) as horizon
    from skipmq.queue q
  loop
    if v_queue.fifo then
      v_count := v_count + skipmq.expire_fifo(v_queue.queue_id, v_queue.horizon, p_limit - v_count);
    else
      -- Keys only move forward, so that all up to the horizon was enqueued before it.
      v_count := v_count + skipmq.expire_visible(
        v_queue.queue_id, 0::smallint, '-infinity', v_queue.horizon, v_queue.horizon, p_limit - v_count);
      v_count := v_count + skipmq.expire_visible(
        v_queue.queue_id, 2::smallint, '-infinity', v_queue.horizon, v_queue.horizon, p_limit - v_count);
      if v_queue.tenants then
        v_count := v_count + skipmq.expire_visible(
          v_queue.queue_id, 1::smallint, '-infinity', v_queue.horizon, v_queue.horizon, p_limit - v_count);
      end if;
    end if;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
-- Does: settles up to p_limit messages of a shard of a standard queue that became visible from p_from to
--   p_to, and are past its retention period (enqueued by p_horizon); gives their number.
-- Called by: clear_head, expire_messages.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.expire_visible(
  p_queue_id integer, p_shard smallint, p_from timestamptz, p_to timestamptz, p_horizon timestamptz, p_limit integer
) returns integer
language plpgsql volatile
as $$
declare
  v_tids tid[];
begin
  select array_agg(h.tid) into v_tids
  from (
    select m.ctid as tid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
      and m.visible_at >= p_from and m.visible_at <= p_to and m.enqueued_at <= p_horizon
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  ) h;
  if v_tids is null then
    return 0;
  end if;
  return skipmq.settle(v_tids, 'expired');
end $$;
-- Does: finds a message that is not settled, by its message id: with p_id in whatever queue it is, without it (or where
--   that finds nothing) among the first p_limit messages of a generation, in the order in which they become visible (FIFO:
--   of their arrival). Gives one row; where nothing was found its id is null, and is_whole says whether all was looked through.
-- Called by: the GetMessageTimeline action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_pkey, message_visible; for FIFO message_enqueued; generation_pkey, queue_pkey.
--
-- state_at is when an in-flight or delayed message becomes visible, a visible one became so, an expired one did, or its
-- queue was purged or deleted, whose messages are settled a little later.
create function skipmq.find_message(
  p_queue_id integer, p_message_id uuid, p_id bigint default null, p_limit integer default 10000
) returns table (
  id bigint, account text, region text, name text, policy text, state text, state_at timestamptz, sent_at timestamptz,
  first_received_at timestamptz, receives integer, dead_letter_source text, is_whole boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_id bigint;
  v_passed integer := 0;
begin
  select m.id into v_id from skipmq.message m where m.id = p_id and m.message_id = p_message_id;
  if v_id is null then
    select min(s.id) filter (where s.message_id = p_message_id), count(*) into v_id, v_passed
    from (
      (select m.id, m.message_id from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is null
      order by m.shard, m.visible_at limit p_limit)
      union all
      (select m.id, m.message_id from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null
      order by m.enqueued_at limit p_limit)
    ) s;
  end if;
  if v_id is null then
    return query select
      null::bigint, null, null, null, null, null, null::timestamptz, null::timestamptz, null::timestamptz, null::integer, null,
      v_passed < p_limit;
    return;
  end if;
  return query
  select m.id, g.account, g.region, g.name, coalesce(q.policy, ''), s.state, s.at, m.sent_at, m.first_received_at,
    m.receive_count - m.receive_base, m.dead_letter_source, true
  from skipmq.message m
  join skipmq.generation g on g.queue_id = m.queue_id
  left join skipmq.queue q on q.account = g.account and q.region = g.region and q.name = g.name
  cross join lateral (
    select m.enqueued_at + make_interval(secs => q.message_retention_period) as expires_at,
      m.visible_at + case
        when q.fifo and m.receive_count = m.receive_base then make_interval(secs => q.delay_seconds) else '0' end as visible_at
  ) v
  cross join lateral (
    select 'purged' as state, g.retired_at as at where g.retired_at is not null
    union all
    select 'expired', v.expires_at where g.retired_at is null and v.expires_at <= v_now
    union all
    select case
        when v.visible_at <= v_now then 'visible'
        when m.receive_count = m.receive_base then 'delayed'
        else 'in-flight' end,
      v.visible_at
    where g.retired_at is null and v.expires_at > v_now
  ) s
  where m.id = v_id;
end $$;
-- Does: finds what the history has of a message id, the newest first, from the place p_place on (null: from the newest
--   row) back to p_since: it reads up to p_blocks blocks, and for up to a second. The last row has no outcome: its
--   settled_at is how far back that was, its place where to go on, null when nothing older can be of the message.
-- Called by: the GetMessageTimeline action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none (ranges of ctid), generation_pkey, queue_pkey.
--
-- The history has no index by message id, which each delete would pay for. Its rows lie nearly in the order of time,
-- and nothing is settled before it was sent: once a row is found, older ones than its send are not read.
create function skipmq.find_settled(
  p_message_id uuid, p_since timestamptz default null, p_place text default null, p_blocks integer default 8192
) returns table (
  id bigint, account text, region text, name text, policy text, outcome text, sent_at timestamptz,
  first_received_at timestamptz, settled_at timestamptz, receives integer, node text, place text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_end timestamptz := clock_timestamp() + interval '1 second';
  v_since timestamptz := p_since;
  v_day date := coalesce(split_part(p_place, '/', 1)::date, (skipmq.clock() at time zone 'UTC')::date + 1);
  v_high bigint := nullif(split_part(p_place, '/', 2), '')::bigint;
  v_left bigint := p_blocks;
  v_oldest date;
  v_from timestamptz;
  v_to timestamptz;
  v_low bigint;
  v_blocks bigint;
  v_first timestamptz;
  v_last timestamptz;
begin
  select min(to_date(right(c.relname, 8), 'YYYYMMDD')) into v_oldest
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'skipmq.history'::regclass and c.relname ~ '^history_[0-9]{8}$';
  while v_day >= v_oldest and v_left > 0 loop
    v_from := v_day::timestamp at time zone 'UTC';
    v_to := (v_day + 1)::timestamp at time zone 'UTC';
    exit when v_to <= v_since;
    -- Only the partition of the day is read: the planner leaves out the others by settled_at.
    v_blocks := pg_relation_size(coalesce(
      to_regclass('skipmq.history_' || to_char(v_day, 'YYYYMMDD')), 'skipmq.history_default'))
      / current_setting('block_size')::bigint;
    v_high := least(v_high, v_blocks);
    while v_high > 0 and v_left > 0 loop
      v_low := greatest(v_high - least(128, v_left), 0);
      for id, account, region, name, policy, outcome, sent_at, first_received_at, settled_at, receives, node, place in
        select h.id, g.account, g.region, g.name, coalesce(q.policy, ''), h.outcome, h.sent_at, h.first_received_at,
          h.settled_at, h.receive_count, h.node, to_char(v_day, 'YYYYMMDD/') || (h.ctid::text::point)[0]::bigint + 1
        from skipmq.history h
        left join skipmq.generation g on g.queue_id = h.queue_id
        left join skipmq.queue q on q.account = g.account and q.region = g.region and q.name = g.name
        where h.settled_at >= v_from and h.settled_at < v_to and h.message_id = p_message_id
          and h.ctid >= format('(%s,0)', v_low)::tid and h.ctid < format('(%s,0)', v_high)::tid
        order by h.settled_at desc
      loop
        return next;
        v_since := greatest(v_since, sent_at);
      end loop;
      select min(h.settled_at), max(h.settled_at) into v_first, v_last
      from skipmq.history h
      where h.settled_at >= v_from and h.settled_at < v_to
        and h.ctid >= format('(%s,0)', v_low)::tid and h.ctid < format('(%s,0)', v_low + 1)::tid;
      v_left := v_left - (v_high - v_low);
      v_high := v_low;
      exit when v_last < v_since;
      if clock_timestamp() > v_end then
        v_left := 0;
      end if;
    end loop;
    exit when v_high > 0 or v_last < v_since;
    v_day := v_day - 1;
    v_high := null;
  end loop;
  return query
  select null::bigint, null, null, null, null, null, null::timestamptz, null::timestamptz, coalesce(v_first, v_from),
    null::integer, null, case
      when v_day >= v_oldest and v_left <= 0 and (v_last < v_since) is not true
        then to_char(v_day, 'YYYYMMDD/') || coalesce(v_high::text, '') end;
end $$;
-- Does: adds what has changed in the numbers of messages to their sums, and to those of this minute; gives how many
--   changes it folded. Minutes are kept for six hours.
-- Called by: the janitor.
-- Locks, in order: row of the job (when it is held elsewhere nothing is done), changes by time,
--   sums by queue_id.
-- Raises: nothing.
-- Relies on index: queue_delta_at, queue_count_pkey, queue_minute_pkey, queue_minute_minute, generation_pkey; the first time message_visible, message_enqueued.
--
-- p_all reads all changes, also at those of transactions that have run for long, and notes the time:
-- later calls begin there. So while a snapshot is held open, and what was folded cannot be cleared,
-- only a part of it is met again. The first time it counts the messages themselves: calls that had begun
-- before these sums were there left no changes.
create function skipmq.fold_counts(p_all boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_from timestamptz;
  v_count integer;
begin
  if not skipmq.hold_job('fold_counts') then
    return 0;
  end if;
  select case when p_all then '-infinity' else c.counted_to - interval '10 seconds' end into v_from
  from skipmq.cluster c;
  if p_all and exists (select from skipmq.cluster c where c.counted_to = '-infinity') then
    insert into skipmq.queue_count as c (queue_id, messages)
    select q.queue_id, s.messages + f.messages - coalesce(d.change, 0)
    from skipmq.queue q
    cross join lateral (
      select count(*) as messages from skipmq.message m where m.queue_id = q.queue_id and m.group_no is null
    ) s
    cross join lateral (
      select count(*) as messages from skipmq.message m where m.queue_id = q.queue_id and m.group_no is not null
    ) f
    left join (
      select d.queue_id, sum(d.change) as change from skipmq.queue_delta d group by d.queue_id
    ) d on d.queue_id = q.queue_id
    on conflict (queue_id) do update set messages = excluded.messages;
  end if;
  with folded as (
    delete from skipmq.queue_delta d where d.at >= v_from
    returning d.queue_id, d.change, d.event, coalesce(d.number, abs(d.change)) as number, d.bytes
  ), added as (
    select
      f.queue_id, sum(f.change) as messages, sum(f.bytes) as bytes_sent,
      coalesce(sum(f.number) filter (where f.event = 'sent'), 0) as sent,
      coalesce(sum(f.number) filter (where f.event = 'received'), 0) as received,
      coalesce(sum(f.number) filter (where f.event = 'empty'), 0) as empty_receives,
      coalesce(sum(f.number) filter (where f.event = 'deleted'), 0) as deleted,
      coalesce(sum(f.number) filter (where f.event = 'expired'), 0) as expired,
      coalesce(sum(f.number) filter (where f.event = 'dead-lettered'), 0) as dead_lettered,
      coalesce(sum(f.number) filter (where f.event = 'redriven'), 0) as redriven,
      coalesce(sum(f.number) filter (where f.event = 'moved-in'), 0) as moved_in
    from folded f
    where not exists (
      select from skipmq.generation g where g.queue_id = f.queue_id and g.cleared_at is not null)
    group by f.queue_id
  ), summed as (
    insert into skipmq.queue_count as c (
      queue_id, messages, sent, bytes_sent, received, empty_receives, deleted, expired, dead_lettered, redriven, moved_in)
    select
      a.queue_id, a.messages, a.sent, a.bytes_sent, a.received, a.empty_receives, a.deleted, a.expired,
      a.dead_lettered, a.redriven, a.moved_in
    from added a
    order by a.queue_id
    on conflict (queue_id) do update set
      messages = c.messages + excluded.messages,
      sent = c.sent + excluded.sent,
      bytes_sent = c.bytes_sent + excluded.bytes_sent,
      received = c.received + excluded.received,
      empty_receives = c.empty_receives + excluded.empty_receives,
      deleted = c.deleted + excluded.deleted,
      expired = c.expired + excluded.expired,
      dead_lettered = c.dead_lettered + excluded.dead_lettered,
      redriven = c.redriven + excluded.redriven,
      moved_in = c.moved_in + excluded.moved_in
    returning c.queue_id, c.messages
  ), noted as (
    insert into skipmq.queue_minute as m (minute, queue_id, sent, received, deleted, dead_lettered, messages)
    select
      date_trunc('minute', v_now), a.queue_id, a.sent + a.moved_in, a.received, a.deleted, a.dead_lettered, s.messages
    from added a join summed s on s.queue_id = a.queue_id
    order by a.queue_id
    on conflict (queue_id, minute) do update set
      sent = m.sent + excluded.sent,
      received = m.received + excluded.received,
      deleted = m.deleted + excluded.deleted,
      dead_lettered = m.dead_lettered + excluded.dead_lettered,
      messages = excluded.messages
  )
  select count(*) into v_count from folded;
  if p_all then
    update skipmq.cluster c set counted_to = v_now;
    delete from skipmq.queue_minute m where m.minute < v_now - interval '6 hours';
  end if;
  return v_count;
end $$;
-- Does: finds a queue by name; no row when there is none.
-- Called by: every action on a queue, through the node's cache of a few seconds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey.
create function skipmq.get_queue(p_name text, p_account text, p_region text)
returns table (
  queue_id integer, fifo boolean, attributes jsonb, tags jsonb,
  created_at timestamptz, modified_at timestamptz
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.queue_id, q.fifo, skipmq.queue_attributes(q), q.tags, q.created_at, q.modified_at
  from skipmq.queue q
  where q.account = p_account and q.region = p_region and q.name = p_name
$$;
-- Does: lets a role send to the queues of p_send and receive from those of p_receive by SQL: names, or patterns in which
--   * stands for any characters. Makes it a member of skipmq_application, and forgets the grants of roles that are gone.
-- Called by: `skipmq grant`, as the owner.
-- Locks, in order: the table of grants, in which others may read meanwhile.
-- Raises: SQ008 for what cannot be a queue or an account; SQ010, with the remedy, when there is no such role or no
--   skipmq_application; SQ011 without a queue; 42501 when the owner may not grant that.
-- Relies on index: queue_grant_pkey.
--
-- A queue need not exist. What is granted already stays as it is. Not for nodes.
create function skipmq.grant_queues(
  p_role text, p_send text[] default '{}', p_receive text[] default '{}',
  p_account text default '000000000000', p_region text default 'us-east-1'
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_role oid := (select r.oid from pg_roles r where r.rolname = p_role);
  v_queues text[] := p_send || p_receive;
  v_queue text;
begin
  if v_role is null then
    raise exception 'there is no role %: create role % login password ''…''', p_role, quote_ident(p_role)
      using errcode = 'SQ010';
  elsif to_regrole('skipmq_application') is null then
    raise exception 'there is no role skipmq_application: create role skipmq_application; grant skipmq_application to % with admin option; then run skipmq migrate',
      quote_ident(current_user) using errcode = 'SQ010';
  elsif p_account !~ '^[0-9]{12}$' then
    raise exception 'an account is 12 digits, not %', p_account using errcode = 'SQ008';
  elsif coalesce(v_queues, '{}') = '{}' then
    raise exception 'name a queue to send to or to receive from' using errcode = 'SQ011';
  end if;
  foreach v_queue in array v_queues loop
    if (v_queue ~ '^[A-Za-z0-9_*-]{1,80}$' or v_queue ~ '^[A-Za-z0-9_*-]{1,75}[.]fifo$') is not true then
      raise exception '% is no name of a queue: it has 1 to 80 letters, digits, - and _, .fifo at the end of a FIFO queue''s, and * for any characters',
        quote_nullable(skipmq.shown(v_queue)) using errcode = 'SQ008';
    end if;
  end loop;

  lock table skipmq.queue_grant in share row exclusive mode;
  delete from skipmq.queue_grant g where not exists (select from pg_roles r where r.oid = g.role);
  insert into skipmq.queue_grant as g (role, account, region, queue, may_send, may_receive, granted_at, granted_by)
  select v_role, p_account, p_region, q.queue, bool_or(q.sends), bool_or(not q.sends), skipmq.clock(), session_user
  from (
    select unnest(p_send), true
    union all
    select unnest(p_receive), false
  ) q (queue, sends)
  group by q.queue
  on conflict on constraint queue_grant_pkey do update set
    may_send = g.may_send or excluded.may_send,
    may_receive = g.may_receive or excluded.may_receive,
    granted_at = excluded.granted_at,
    granted_by = excluded.granted_by
  where excluded.may_send > g.may_send or excluded.may_receive > g.may_receive;
  if not exists (
    select from pg_auth_members m where m.roleid = to_regrole('skipmq_application') and m.member = v_role)
  then
    begin
      execute format('grant skipmq_application to %I', p_role);
    exception
      when insufficient_privilege then
        raise exception '% may not grant skipmq_application', current_user
          using errcode = '42501', hint = format('grant skipmq_application to %I with admin option', current_user);
    end;
  end if;
end $$;
-- Does: says whether a text has characters that XML 1.0, and so SQS, does not allow.
-- Called by: check_message, check_attributes.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.has_forbidden_character(p_text text) returns boolean
language sql immutable
as $$
  select p_text ~ '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]'
$$;
-- Does: keeps a queue from being purged or deleted until the transaction ends, so that what it sends is there when
--   it has committed.
-- Called by: hold_queue; send_messages and send_fifo_messages for SQL users: a transaction of a node is over in an
--   instant, and counts as before or after a purge.
-- Locks, in order: advisory lock of the generation, shared.
-- Raises: 40001 when the queue was purged or deleted since the transaction's snapshot was taken.
-- Relies on index: queue_id.
--
-- An advisory lock, since a lock of the row would write it at each send. A transaction with one snapshot for all
-- statements cannot see what happened before it had the lock: it locks the row besides, as a foreign key does.
create function skipmq.hold_generation(p_queue_id integer) returns void
language plpgsql volatile
as $$
begin
  perform pg_advisory_xact_lock_shared(hashtext('skipmq.queue'), p_queue_id);
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    perform from skipmq.queue q where q.queue_id = p_queue_id for key share;
  end if;
end $$;
-- Does: makes the caller's transaction the only one that does a job, and gives true; false when another does it. With
--   p_waits it waits for that one's end.
-- Called by: the jobs of the janitor.
-- Locks, in order: row of the job.
-- Raises: nothing.
-- Relies on index: job_pkey.
--
-- A row and no advisory lock, which every login of the database may hold for as long as it likes.
create function skipmq.hold_job(p_name text, p_waits boolean default false) returns boolean
language plpgsql volatile
as $$
begin
  if p_waits then
    perform from skipmq.job j where j.name = p_name for update;
  else
    perform from skipmq.job j where j.name = p_name for update skip locked;
  end if;
  return found;
end $$;
-- Does: gives the present generation of a queue, by name, and keeps it until the transaction ends: it is neither
--   purged nor deleted before.
-- Called by: send_message, send_fifo_message.
-- Locks, in order: those of hold_generation.
-- Raises: what queue_id and hold_generation raise.
-- Relies on index: queue_pkey, queue_id.
create function skipmq.hold_queue(p_name text, p_account text, p_region text) returns integer
language plpgsql volatile
as $$
declare
  v_id integer;
begin
  loop
    v_id := skipmq.queue_id(p_name, p_account, p_region);
    perform skipmq.hold_generation(v_id);
    -- It may have been purged while this one waited: then the name stands for another generation by now.
    exit when exists (select from skipmq.queue q where q.queue_id = v_id);
  end loop;
  return v_id;
end $$;
-- Does: says whether a text may be the name of a message attribute.
-- Called by: check_attributes.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Without a backslash in its texts, as is_number.
create function skipmq.is_attribute_name(p_text text) returns boolean
language sql immutable
as $$
  select length(p_text) <= 256 and p_text !~* '^(aws|amazon)[.]'
    and case when octet_length(p_text) = length(p_text) then p_text else skipmq.latin(p_text) end
      ~ '^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$'
$$;
-- Does: says whether a text may be a MessageGroupId, a MessageDeduplicationId or a ReceiveRequestAttemptId.
-- Called by: check_message, receive_fifo_attempt.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.is_identifier(p_text text) returns boolean
language sql immutable
as $$
  select p_text ~ '^[!-~]+$' and octet_length(p_text) <= 128
$$;
-- Does: says whether a text is a number as SQS takes it: of at most 38 digits, between 10^-128 and 10^126.
-- Called by: check_attributes.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Without a backslash in its texts, which a session that turns standard_conforming_strings off would change.
create function skipmq.is_number(p_text text) returns boolean
language plpgsql immutable
as $$
declare
  v_parts text[];
  v_digits text;
  v_significant text;
  v_exponent text;
begin
  -- As nearly all are.
  if p_text ~ '^[+-]?[0-9]{1,38}$' then
    return true;
  elsif length(p_text) > 512 then
    return false;
  end if;
  v_parts := regexp_match(p_text, '^[+-]?([0-9]*)[.]?([0-9]*)(?:[eE]([+-]?[0-9]+))?$');
  v_digits := v_parts[1] || v_parts[2];
  v_significant := ltrim(v_digits, '0');
  v_exponent := coalesce(v_parts[3], '0');
  -- An exponent of more digits is beyond all bounds, and beyond bigint.
  if v_digits is null or v_digits = '' or length(ltrim(v_exponent, '+-0')) > 18 then
    return false;
  end if;
  return length(rtrim(v_significant, '0')) <= 38 and (
    v_significant = ''
    or length(v_parts[1]) - length(v_digits) + length(v_significant) - 1 + v_exponent::bigint between -128 and 126);
end $$;
-- Does: says whether move_batch, or for FIFO move_fifo_batch, would find a message to move if it ran now; those that
--   others hold count too.
-- Called by: advance_move_tasks.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible, queue_pkey; for FIFO message_group_available, message_group_order.
create function skipmq.is_redrivable(p_source integer, p_destination integer, p_fifo boolean) returns boolean
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
begin
  if not p_fifo then
    return exists (
      select
      from skipmq.message m
      left join lateral (
        select q.queue_id
        from skipmq.queue q
        where q.account = split_part(m.dead_letter_source, ':', 5)
          and q.region = split_part(m.dead_letter_source, ':', 4)
          and q.name = split_part(m.dead_letter_source, ':', 6)
      ) origin on p_destination is null
      where m.queue_id = p_source and m.shard in (0, 1, 2) and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= v_now
        and coalesce(p_destination, origin.queue_id) <> p_source);
  end if;
  return exists (
    select
    from (
      select g.group_no
      from skipmq.message_group g
      where g.queue_id = p_source and g.available_at > '-infinity' and g.available_at <= v_now
      order by g.available_at
      limit 1000
    ) g
    cross join lateral (
      select m.dead_letter_source
      from skipmq.message m
      where m.queue_id = p_source and m.group_no = g.group_no
      order by m.sequence_number
      limit 1
    ) m
    where coalesce(p_destination, skipmq.queue_of_arn(m.dead_letter_source)) <> p_source);
end $$;
-- Does: says whether one of these messages is in a standard queue, sent since p_since; waits for the try that
--   may be sending them.
-- Called by: send_messages, for a retry.
-- Locks, in order: advisory lock of the first message id.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.is_sent(p_queue_id integer, p_message_ids uuid[], p_since timestamptz) returns boolean
language plpgsql volatile
as $$
begin
  perform pg_advisory_xact_lock(uuid_hash_extended(p_message_ids[1], 0));
  -- In a statement of its own, which sees what was committed during the wait.
  return exists (
    select from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = any ('{0,1,2}') and m.group_no is null
      and m.visible_at >= p_since and m.message_id = any (p_message_ids));
end $$;
-- Does: gives a text in which letters and decimal digits of other alphabets are the letter a.
-- Called by: is_attribute_name.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Which characters these are must not depend on the server: some have no ICU, and locales know other letters. So they
-- are here, those of Unicode 14 by the categories L and Nd, which are those of Python's isalpha and isdecimal.
create function skipmq.latin(p_text text) returns text
language sql immutable
as $$
  select string_agg(case when ascii(c.character) <@ '{
    [170,171), [181,182), [186,187), [192,215), [216,247), [248,706), [710,722), [736,741), [748,749), [750,751),
    [880,885), [886,888), [890,894), [895,896), [902,903), [904,907), [908,909), [910,930), [931,1014), [1015,1154),
    [1162,1328), [1329,1367), [1369,1370), [1376,1417), [1488,1515), [1519,1523), [1568,1611), [1632,1642), [1646,1648),
    [1649,1748), [1749,1750), [1765,1767), [1774,1789), [1791,1792), [1808,1809), [1810,1840), [1869,1958), [1969,1970),
    [1984,2027), [2036,2038), [2042,2043), [2048,2070), [2074,2075), [2084,2085), [2088,2089), [2112,2137), [2144,2155),
    [2160,2184), [2185,2191), [2208,2250), [2308,2362), [2365,2366), [2384,2385), [2392,2402), [2406,2416), [2417,2433),
    [2437,2445), [2447,2449), [2451,2473), [2474,2481), [2482,2483), [2486,2490), [2493,2494), [2510,2511), [2524,2526),
    [2527,2530), [2534,2546), [2556,2557), [2565,2571), [2575,2577), [2579,2601), [2602,2609), [2610,2612), [2613,2615),
    [2616,2618), [2649,2653), [2654,2655), [2662,2672), [2674,2677), [2693,2702), [2703,2706), [2707,2729), [2730,2737),
    [2738,2740), [2741,2746), [2749,2750), [2768,2769), [2784,2786), [2790,2800), [2809,2810), [2821,2829), [2831,2833),
    [2835,2857), [2858,2865), [2866,2868), [2869,2874), [2877,2878), [2908,2910), [2911,2914), [2918,2928), [2929,2930),
    [2947,2948), [2949,2955), [2958,2961), [2962,2966), [2969,2971), [2972,2973), [2974,2976), [2979,2981), [2984,2987),
    [2990,3002), [3024,3025), [3046,3056), [3077,3085), [3086,3089), [3090,3113), [3114,3130), [3133,3134), [3160,3163),
    [3165,3166), [3168,3170), [3174,3184), [3200,3201), [3205,3213), [3214,3217), [3218,3241), [3242,3252), [3253,3258),
    [3261,3262), [3293,3295), [3296,3298), [3302,3312), [3313,3315), [3332,3341), [3342,3345), [3346,3387), [3389,3390),
    [3406,3407), [3412,3415), [3423,3426), [3430,3440), [3450,3456), [3461,3479), [3482,3506), [3507,3516), [3517,3518),
    [3520,3527), [3558,3568), [3585,3633), [3634,3636), [3648,3655), [3664,3674), [3713,3715), [3716,3717), [3718,3723),
    [3724,3748), [3749,3750), [3751,3761), [3762,3764), [3773,3774), [3776,3781), [3782,3783), [3792,3802), [3804,3808),
    [3840,3841), [3872,3882), [3904,3912), [3913,3949), [3976,3981), [4096,4139), [4159,4170), [4176,4182), [4186,4190),
    [4193,4194), [4197,4199), [4206,4209), [4213,4226), [4238,4239), [4240,4250), [4256,4294), [4295,4296), [4301,4302),
    [4304,4347), [4348,4681), [4682,4686), [4688,4695), [4696,4697), [4698,4702), [4704,4745), [4746,4750), [4752,4785),
    [4786,4790), [4792,4799), [4800,4801), [4802,4806), [4808,4823), [4824,4881), [4882,4886), [4888,4955), [4992,5008),
    [5024,5110), [5112,5118), [5121,5741), [5743,5760), [5761,5787), [5792,5867), [5873,5881), [5888,5906), [5919,5938),
    [5952,5970), [5984,5997), [5998,6001), [6016,6068), [6103,6104), [6108,6109), [6112,6122), [6160,6170), [6176,6265),
    [6272,6277), [6279,6313), [6314,6315), [6320,6390), [6400,6431), [6470,6510), [6512,6517), [6528,6572), [6576,6602),
    [6608,6618), [6656,6679), [6688,6741), [6784,6794), [6800,6810), [6823,6824), [6917,6964), [6981,6989), [6992,7002),
    [7043,7073), [7086,7142), [7168,7204), [7232,7242), [7245,7294), [7296,7305), [7312,7355), [7357,7360), [7401,7405),
    [7406,7412), [7413,7415), [7418,7419), [7424,7616), [7680,7958), [7960,7966), [7968,8006), [8008,8014), [8016,8024),
    [8025,8026), [8027,8028), [8029,8030), [8031,8062), [8064,8117), [8118,8125), [8126,8127), [8130,8133), [8134,8141),
    [8144,8148), [8150,8156), [8160,8173), [8178,8181), [8182,8189), [8305,8306), [8319,8320), [8336,8349), [8450,8451),
    [8455,8456), [8458,8468), [8469,8470), [8473,8478), [8484,8485), [8486,8487), [8488,8489), [8490,8494), [8495,8506),
    [8508,8512), [8517,8522), [8526,8527), [8579,8581), [11264,11493), [11499,11503), [11506,11508), [11520,11558),
    [11559,11560), [11565,11566), [11568,11624), [11631,11632), [11648,11671), [11680,11687), [11688,11695),
    [11696,11703), [11704,11711), [11712,11719), [11720,11727), [11728,11735), [11736,11743), [11823,11824),
    [12293,12295), [12337,12342), [12347,12349), [12353,12439), [12445,12448), [12449,12539), [12540,12544),
    [12549,12592), [12593,12687), [12704,12736), [12784,12800), [13312,19904), [19968,42125), [42192,42238),
    [42240,42509), [42512,42540), [42560,42607), [42623,42654), [42656,42726), [42775,42784), [42786,42889),
    [42891,42955), [42960,42962), [42963,42964), [42965,42970), [42994,43010), [43011,43014), [43015,43019),
    [43020,43043), [43072,43124), [43138,43188), [43216,43226), [43250,43256), [43259,43260), [43261,43263),
    [43264,43302), [43312,43335), [43360,43389), [43396,43443), [43471,43482), [43488,43493), [43494,43519),
    [43520,43561), [43584,43587), [43588,43596), [43600,43610), [43616,43639), [43642,43643), [43646,43696),
    [43697,43698), [43701,43703), [43705,43710), [43712,43713), [43714,43715), [43739,43742), [43744,43755),
    [43762,43765), [43777,43783), [43785,43791), [43793,43799), [43808,43815), [43816,43823), [43824,43867),
    [43868,43882), [43888,44003), [44016,44026), [44032,55204), [55216,55239), [55243,55292), [63744,64110),
    [64112,64218), [64256,64263), [64275,64280), [64285,64286), [64287,64297), [64298,64311), [64312,64317),
    [64318,64319), [64320,64322), [64323,64325), [64326,64434), [64467,64830), [64848,64912), [64914,64968),
    [65008,65020), [65136,65141), [65142,65277), [65296,65306), [65313,65339), [65345,65371), [65382,65471),
    [65474,65480), [65482,65488), [65490,65496), [65498,65501), [65536,65548), [65549,65575), [65576,65595),
    [65596,65598), [65599,65614), [65616,65630), [65664,65787), [66176,66205), [66208,66257), [66304,66336),
    [66349,66369), [66370,66378), [66384,66422), [66432,66462), [66464,66500), [66504,66512), [66560,66718),
    [66720,66730), [66736,66772), [66776,66812), [66816,66856), [66864,66916), [66928,66939), [66940,66955),
    [66956,66963), [66964,66966), [66967,66978), [66979,66994), [66995,67002), [67003,67005), [67072,67383),
    [67392,67414), [67424,67432), [67456,67462), [67463,67505), [67506,67515), [67584,67590), [67592,67593),
    [67594,67638), [67639,67641), [67644,67645), [67647,67670), [67680,67703), [67712,67743), [67808,67827),
    [67828,67830), [67840,67862), [67872,67898), [67968,68024), [68030,68032), [68096,68097), [68112,68116),
    [68117,68120), [68121,68150), [68192,68221), [68224,68253), [68288,68296), [68297,68325), [68352,68406),
    [68416,68438), [68448,68467), [68480,68498), [68608,68681), [68736,68787), [68800,68851), [68864,68900),
    [68912,68922), [69248,69290), [69296,69298), [69376,69405), [69415,69416), [69424,69446), [69488,69506),
    [69552,69573), [69600,69623), [69635,69688), [69734,69744), [69745,69747), [69749,69750), [69763,69808),
    [69840,69865), [69872,69882), [69891,69927), [69942,69952), [69956,69957), [69959,69960), [69968,70003),
    [70006,70007), [70019,70067), [70081,70085), [70096,70107), [70108,70109), [70144,70162), [70163,70188),
    [70272,70279), [70280,70281), [70282,70286), [70287,70302), [70303,70313), [70320,70367), [70384,70394),
    [70405,70413), [70415,70417), [70419,70441), [70442,70449), [70450,70452), [70453,70458), [70461,70462),
    [70480,70481), [70493,70498), [70656,70709), [70727,70731), [70736,70746), [70751,70754), [70784,70832),
    [70852,70854), [70855,70856), [70864,70874), [71040,71087), [71128,71132), [71168,71216), [71236,71237),
    [71248,71258), [71296,71339), [71352,71353), [71360,71370), [71424,71451), [71472,71482), [71488,71495),
    [71680,71724), [71840,71914), [71935,71943), [71945,71946), [71948,71956), [71957,71959), [71960,71984),
    [71999,72000), [72001,72002), [72016,72026), [72096,72104), [72106,72145), [72161,72162), [72163,72164),
    [72192,72193), [72203,72243), [72250,72251), [72272,72273), [72284,72330), [72349,72350), [72368,72441),
    [72704,72713), [72714,72751), [72768,72769), [72784,72794), [72818,72848), [72960,72967), [72968,72970),
    [72971,73009), [73030,73031), [73040,73050), [73056,73062), [73063,73065), [73066,73098), [73112,73113),
    [73120,73130), [73440,73459), [73648,73649), [73728,74650), [74880,75076), [77712,77809), [77824,78895),
    [82944,83527), [92160,92729), [92736,92767), [92768,92778), [92784,92863), [92864,92874), [92880,92910),
    [92928,92976), [92992,92996), [93008,93018), [93027,93048), [93053,93072), [93760,93824), [93952,94027),
    [94032,94033), [94099,94112), [94176,94178), [94179,94180), [94208,100344), [100352,101590), [101632,101641),
    [110576,110580), [110581,110588), [110589,110591), [110592,110883), [110928,110931), [110948,110952),
    [110960,111356), [113664,113771), [113776,113789), [113792,113801), [113808,113818), [119808,119893),
    [119894,119965), [119966,119968), [119970,119971), [119973,119975), [119977,119981), [119982,119994),
    [119995,119996), [119997,120004), [120005,120070), [120071,120075), [120077,120085), [120086,120093),
    [120094,120122), [120123,120127), [120128,120133), [120134,120135), [120138,120145), [120146,120486),
    [120488,120513), [120514,120539), [120540,120571), [120572,120597), [120598,120629), [120630,120655),
    [120656,120687), [120688,120713), [120714,120745), [120746,120771), [120772,120780), [120782,120832),
    [122624,122655), [123136,123181), [123191,123198), [123200,123210), [123214,123215), [123536,123566),
    [123584,123628), [123632,123642), [124896,124903), [124904,124908), [124909,124911), [124912,124927),
    [124928,125125), [125184,125252), [125259,125260), [125264,125274), [126464,126468), [126469,126496),
    [126497,126499), [126500,126501), [126503,126504), [126505,126515), [126516,126520), [126521,126522),
    [126523,126524), [126530,126531), [126535,126536), [126537,126538), [126539,126540), [126541,126544),
    [126545,126547), [126548,126549), [126551,126552), [126553,126554), [126555,126556), [126557,126558),
    [126559,126560), [126561,126563), [126564,126565), [126567,126571), [126572,126579), [126580,126584),
    [126585,126589), [126590,126591), [126592,126602), [126603,126620), [126625,126628), [126629,126634),
    [126635,126652), [130032,130042), [131072,173792), [173824,177977), [177984,178206), [178208,183970),
    [183984,191457), [194560,195102), [196608,201547)}'::int4multirange then 'a' else c.character end, '' order by c.place)
  from regexp_split_to_table(p_text, '') with ordinality c (character, place)
$$;
-- Does: lists the newest tasks of a source, none of a deleted queue of its name, newest first: redrives, with p_every those with a filter, too.
-- Called by: the ListMessageMoveTasks and ListMessageTasks actions; SQL users.
-- Locks, in order: none.
-- Raises: SQ010 when the source is not there.
-- Relies on index: move_task_source.
create function skipmq.list_move_tasks(p_source_arn text, p_limit integer default 1, p_every boolean default false)
returns table (
  task_id uuid, status text, destination_arn text, messages_per_second integer, moved bigint,
  to_move bigint, failure_reason text, started_at timestamptz, kind text, body_contains text, attribute_name text,
  attribute_value text, passed bigint
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_since timestamptz := skipmq.queue_since(p_source_arn);
begin
  if v_since is null then
    raise exception 'The resource that you specified for the SourceArn parameter doesn''t exist.'
      using errcode = 'SQ010';
  end if;
  return query
  select
    t.task_id, t.status, t.destination_arn, t.messages_per_second, t.moved, t.to_move, t.failure_reason,
    t.started_at, t.kind, t.body_contains, t.attribute_name, t.attribute_value, t.passed
  from skipmq.move_task t
  where t.source_arn = p_source_arn and t.started_at >= v_since and (p_every or t.kind = 'redrive')
  order by t.started_at desc
  limit p_limit;
end $$;
-- Does: lists the names of queues in order, from the one after p_after on, at most p_limit.
-- Called by: the ListQueues action, `skipmq queue list`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey.
create function skipmq.list_queues(
  p_account text,
  p_region text,
  p_prefix text default '',
  p_after text default '',
  p_limit integer default 1000
) returns setof text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.name
  from skipmq.queue q
  where q.account = p_account and q.region = p_region
    and q.name > p_after collate "C"
    and q.name >= p_prefix collate "C"
    and starts_with(q.name, p_prefix)
  order by q.name
  limit p_limit
$$;
-- Does: takes the locks of the groups that messages are sent to (one sender at a time, no receiver waits). With
--   p_requests, which request each message belongs to, it waits for nobody: it gives the places of the messages of
--   those requests of which it has all groups. Null: of all.
-- Called by: send_fifo_messages.
-- Locks, in order: advisory locks of the groups, by number where it waits.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.lock_for_sending(p_queue_id integer, p_group_ids text[], p_requests integer[]) returns bigint[]
language plpgsql volatile
as $$
declare
  v_held bigint[];
begin
  if p_requests is null then
    perform pg_advisory_xact_lock(g.group_no)
    from (
      select distinct hashtextextended(u.group_id, p_queue_id) as group_no
      from unnest(p_group_ids) u (group_id)
      order by group_no
    ) g;
    return null;
  end if;
  v_held := array(
    select g.group_no
    from (select distinct hashtextextended(u.group_id, p_queue_id) as group_no from unnest(p_group_ids) u (group_id)) g
    where not pg_try_advisory_xact_lock(g.group_no));
  if v_held = '{}' then
    return null;
  end if;
  return array(
    select u.place
    from unnest(p_requests) with ordinality u (request, place)
    where u.request not in (
      select h.request
      from unnest(p_requests, p_group_ids) h (request, group_id)
      where hashtextextended(h.group_id, p_queue_id) = any (v_held))
    order by u.place);
end $$;
-- Does: locks the groups of a FIFO queue that the given messages belong to; gives the numbers of those it
--   has locked, without those that have gone meanwhile, and those that others hold where p_waits is false.
-- Called by: delete_fifo_messages, change_fifo_visibility, receive_fifo_attempt, return_fifo_messages, move_messages,
--   delete_picked_messages, advance_message_task, erase_messages.
-- Locks, in order: group rows by number.
-- Raises: nothing.
-- Relies on index: message_pkey, message_group_pkey.
create function skipmq.lock_groups(p_queue_id integer, p_ids bigint[], p_waits boolean default true) returns bigint[]
language plpgsql volatile
as $$
declare
  v_groups bigint[];
begin
  select array_agg(distinct m.group_no) into v_groups
  from unnest(p_ids) u (id)
  cross join lateral (
    select m.group_no from skipmq.message m where m.id = u.id and m.queue_id = p_queue_id
  ) m;
  if p_waits then
    select array_agg(l.group_no) into v_groups
    from (select u.group_no from unnest(v_groups) u (group_no) order by u.group_no) u
    cross join lateral (
      select g.group_no
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.group_no = u.group_no
      for no key update
    ) l;
  else
    select array_agg(l.group_no) into v_groups
    from unnest(v_groups) u (group_no)
    cross join lateral (
      select g.group_no
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.group_no = u.group_no
      for no key update skip locked
    ) l;
  end if;
  return v_groups;
end $$;
-- Does: locks messages of a generation and says which of them are not in flight, in the order in which they were sent
--   (tids: their rows, in the order of their ids), and which are. One that is neither is missing.
-- Called by: move_messages, delete_picked_messages.
-- Locks, in order: message rows by id. The caller holds the groups of a FIFO queue.
-- Raises: nothing.
-- Relies on index: message_pkey.
create function skipmq.lock_picked(p_queue_id integer, p_ids bigint[], p_now timestamptz)
returns table (free bigint[], held bigint[], tids tid[])
language sql volatile
as $$
  select
    array_agg(m.id order by m.sequence_number, m.id) filter (where m.visible_at <= p_now or not m.received),
    array_agg(m.id) filter (where m.visible_at > p_now and m.received),
    array_agg(m.tid order by m.id) filter (where m.visible_at <= p_now or not m.received)
  from (
    select m.*
    from (select distinct u.id from unnest(p_ids) u (id) order by u.id) u
    cross join lateral (
      select m.ctid as tid, m.id, m.sequence_number, m.visible_at, m.receive_count > m.receive_base as received
      from skipmq.message m
      where m.id = u.id and m.queue_id = p_queue_id
      for no key update
    ) m
  ) m;
$$;
-- Does: reads what a node needs to raise the low watermark of a standard queue, the time before which nothing is
--   visible: the time, the transactions that run and have a number, this transaction's own number, and when the first
--   message from p_from on (null: of all) became or becomes visible, of those never received, and the same of those
--   that were, from p_received_from on. Once a later call gives none of the transactions
--   that have a smaller number than this call's xid, every message that is or ever will be visible has a visible_at of
--   this call's read_at or later, or is seen by that later call: writers take their time after their number, and never
--   write an earlier one. Those of p_held are left out of this: where one has ended, the first message is that from its
--   place in p_held_low on, as scan_from says.
-- Called by: the ReceiveMessage action, at intervals.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- Numbers are in order of time, snapshots say which of them are done (PostgreSQL manual, 9.27.8): read-only
-- transactions have none, so that a snapshot held open keeps nothing back.
create function skipmq.low_watermark(
  p_queue_id integer, p_from timestamptz default null, p_held bigint[] default null, p_held_low bigint[] default null,
  p_received_from timestamptz default null
) returns table (
  read_at timestamptz, running bigint[], xid bigint, first_visible_at timestamptz, first_received_at timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  read_at := skipmq.clock();
  xid := pg_current_xact_id()::text::bigint;
  running := array(select x::text::bigint from pg_snapshot_xip(pg_current_snapshot()) x);
  if p_held is not null then
    p_from := skipmq.scan_from(p_from, p_held, p_held_low);
    p_received_from := skipmq.scan_from(p_received_from, p_held, p_held_low);
  end if;
  -- In a statement of its own: it sees what those have done that are not running any more.
  -- By hand it may have been made infinite, which is more than a client can read.
  first_visible_at := (
    select nullif(greatest(m.visible_at, timestamptz '0001-01-02 00:00+00'), 'infinity')
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at >= coalesce(p_from, '-infinity')
    order by m.visible_at
    limit 1);
  first_received_at := (
    select nullif(greatest(m.visible_at, timestamptz '0001-01-02 00:00+00'), 'infinity')
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 2 and m.group_no is null
      and m.visible_at >= coalesce(p_received_from, '-infinity')
    order by m.visible_at
    limit 1);
  return next;
end $$;
-- Does: finds the noisy tenants of the queues whose messages have groups: those that have more than a tenth
--   of the queue's messages in flight and at least 30 (for a minute after that was so the last time); and
--   deprioritises up to p_limit of their waiting messages. Gives how many of them.
-- Called by: the janitor.
-- Locks, in order: row of the job (when it is held elsewhere nothing is done), tenants, message
--   rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible, noisy_tenant_pkey.
--
-- Source: SQS Developer Guide, Amazon SQS fair queues.
create function skipmq.mark_noisy(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queue integer;
  v_noisy text[];
  v_count integer := 0;
begin
  if not skipmq.hold_job('mark_noisy') then
    return 0;
  end if;
  delete from skipmq.noisy_tenant t where t.until <= v_now;
  for v_queue in
    select q.queue_id from skipmq.queue q where q.tenants and not q.fifo
  loop
    insert into skipmq.noisy_tenant as t (queue_id, group_id, until)
    select v_queue, c.group_id, v_now + interval '1 minute'
    from (
      select m.group_id, count(*) as own, sum(count(*)) over () as of_all
      from skipmq.message m
      where m.queue_id = v_queue and m.shard = any ('{0,1,2}') and m.group_no is null
        and m.visible_at > v_now and m.receive_count > m.receive_base
      group by m.group_id
    ) c
    where c.group_id is not null and c.own >= 30 and c.own > c.of_all * 0.1
    on conflict (queue_id, group_id) do update set until = excluded.until;
    v_noisy := array(select t.group_id from skipmq.noisy_tenant t where t.queue_id = v_queue);
    if v_noisy <> '{}' and v_count < p_limit then
      v_count := v_count + skipmq.deprioritise(v_queue, v_noisy, v_now, p_limit - v_count);
    end if;
  end loop;
  return v_count;
end $$;
-- Does: gives up to p_limit messages of a generation after a place, in the order of their places, and whether each is not
--   in flight, within its retention and matches a filter: a text in its body, an attribute by name, and its value. A place
--   is a time up to p_until and a number: of a standard queue when a message became visible and its id, of a FIFO queue
--   when it came and its sequence number.
-- Called by: advance_message_task.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, message_visible; for FIFO message_enqueued.
--
-- A message that goes to the other shard keeps its place.
create function skipmq.match_messages(
  p_queue_id integer, p_after timestamptz, p_number bigint, p_until timestamptz, p_body text, p_name text, p_value text,
  p_limit integer
) returns table (id bigint, at timestamptz, number bigint, matches boolean)
language plpgsql stable
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_horizon timestamptz;
begin
  select v_now - make_interval(secs => q.message_retention_period) into v_horizon
  from skipmq.queue q where q.queue_id = p_queue_id;
  return query
  select s.id, s.at, s.number,
    (s.visible_at <= v_now or s.receive_count = s.receive_base)
    and s.enqueued_at > v_horizon
    and (p_body is null or strpos(s.body, p_body) > 0)
    and (p_name is null or case
      when p_value is null then s.attributes::jsonb ? p_name
      else s.attributes::jsonb -> p_name ->> 'StringValue' = p_value end) is true
  from (
    (select m.visible_at as at, m.id as number, m.*
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and (m.visible_at, m.id) > (p_after, p_number) and m.visible_at <= p_until
    order by m.visible_at, m.id
    limit p_limit)
    union all
    (select m.visible_at, m.id, m.*
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 1 and m.group_no is null
      and (m.visible_at, m.id) > (p_after, p_number) and m.visible_at <= p_until
    order by m.visible_at, m.id
    limit p_limit)
    union all
    (select m.visible_at, m.id, m.*
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 2 and m.group_no is null
      and (m.visible_at, m.id) > (p_after, p_number) and m.visible_at <= p_until
    order by m.visible_at, m.id
    limit p_limit)
    union all
    (select m.enqueued_at, m.sequence_number, m.*
    from skipmq.message m
    where m.queue_id = p_queue_id and m.group_no is not null
      and (m.enqueued_at, m.sequence_number) > (p_after, p_number) and m.enqueued_at <= p_until
    order by m.enqueued_at, m.sequence_number
    limit p_limit)
  ) s
  order by s.at, s.number
  limit p_limit;
end $$;
-- Does: moves up to p_limit visible messages from one standard queue to another (p_destination null: each
--   to the queue it came from, if that is one of p_origins or they are null), where each is a new message: with another id, sent now, never received; gives their
--   number. Each leaves a row of history. What came from a queue that is gone stays.
-- Called by: advance_move_tasks.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible, and those of write_history and resend.
create function skipmq.move_batch(
  p_source integer, p_destination integer, p_limit integer, p_origins text[] default null
) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_shard smallint;
  v_tids tid[];
  v_targets integer[];
  v_count integer := 0;
begin
  foreach v_shard in array array[2, 0, 1] loop
    select array_agg(h.tid), array_agg(h.target) into v_tids, v_targets
    from (
      select m.ctid as tid, coalesce(p_destination, origin.queue_id) as target
      from skipmq.message m
      left join lateral (
        select q.queue_id
        from skipmq.queue q
        where q.account = split_part(m.dead_letter_source, ':', 5)
          and q.region = split_part(m.dead_letter_source, ':', 4)
          and q.name = split_part(m.dead_letter_source, ':', 6)
          and (p_origins is null or m.dead_letter_source = any (p_origins))
      ) origin on p_destination is null
      where m.queue_id = p_source and m.shard = v_shard and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= v_now
        and coalesce(p_destination, origin.queue_id) <> p_source
      order by m.visible_at
      limit p_limit - v_count
      for no key update of m skip locked
    ) h;
    if v_tids is not null then
      v_count := v_count + skipmq.resend(p_source, v_tids, v_targets, v_now);
    end if;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
-- Does: moves up to p_limit visible messages from one FIFO queue to another (p_destination null: each to
--   the queue it came from, if that is one of p_origins or they are null), each group in order; gives their number, or null when it is 0 only because
--   others held the groups. What came from a queue that is gone stays, and its group behind it.
-- Called by: advance_move_tasks.
-- Locks, in order: group rows, skipping those that others hold; then those of append_fifo and
--   refresh_groups.
-- Raises: nothing.
-- Relies on index: message_group_available, message_group_order, queue_pkey.
--
-- It reads the 1,000 groups that have waited longest, however few messages it may move: the first of
-- them may be such as stay.
create function skipmq.move_fifo_batch(
  p_source integer, p_destination integer, p_limit integer, p_origins text[] default null
) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
  v_groups bigint[];
  v_group bigint;
  v_message record;
  v_touched bigint[] := '{}';
  v_ids bigint[] := '{}';
  v_targets integer[] := '{}';
  v_count integer := 0;
begin
  select make_interval(secs => q.delay_seconds) into v_delay from skipmq.queue q where q.queue_id = p_source;
  select coalesce(array_agg(h.group_no order by h.available_at), '{}') into v_groups
  from (
    select g.group_no, g.available_at
    from skipmq.message_group g
    where g.queue_id = p_source and g.available_at > '-infinity' and g.available_at <= v_now
    order by g.available_at
    limit 1000
    for no key update skip locked
  ) h;
  <<groups>>
  foreach v_group in array v_groups loop
    for v_message in
      select m.id, coalesce(p_destination, origin.queue_id) as target,
        case when m.receive_count = m.receive_base then m.visible_at + v_delay else m.visible_at end <= v_now as ready
      from skipmq.message m
      left join lateral (
        select q.queue_id
        from skipmq.queue q
        where q.account = split_part(m.dead_letter_source, ':', 5)
          and q.region = split_part(m.dead_letter_source, ':', 4)
          and q.name = split_part(m.dead_letter_source, ':', 6) and q.fifo
          and (p_origins is null or m.dead_letter_source = any (p_origins))
      ) origin on p_destination is null
      where m.queue_id = p_source and m.group_no = v_group
      order by m.sequence_number
    loop
      exit groups when cardinality(v_ids) >= p_limit;
      continue groups when v_message.ready and coalesce(v_message.target, p_source) = p_source;
      if v_group <> all (v_touched) then
        v_touched := v_touched || v_group;
      end if;
      exit when not v_message.ready;
      v_ids := v_ids || v_message.id;
      v_targets := v_targets || v_message.target;
    end loop;
  end loop;
  if v_ids <> '{}' then
    v_count := skipmq.append_fifo(p_source, v_ids, v_targets, 'redriven');
  end if;
  perform skipmq.refresh_groups(p_source, v_touched);
  if v_count = 0 and exists (
    select
    from (
      select g.group_no
      from skipmq.message_group g
      where g.queue_id = p_source and g.available_at > '-infinity' and g.available_at <= v_now
      order by g.available_at
      limit 1000
    ) g
    where g.group_no <> all (v_groups))
  then
    return null;
  end if;
  return v_count;
end $$;
-- Does: moves messages that are not in flight to another queue of the same type, where each is a new message: with
--   another id, sent now, never received; says for each by its place in p_ids: moved, missing or in-flight.
-- Called by: the MoveMessages action; SQL users.
-- Locks, in order: queue row of the target (shared: it is neither purged nor deleted meanwhile); message
--   rows by id; for FIFO group rows by number before, and those of append_fifo.
-- Raises: SQ005 when no queue has one of the generations, SQ007 when the queues are of different types.
-- Relies on index: queue_id, and those of lock_picked and resend; for FIFO those of lock_groups, append_fifo and refresh_groups.
create function skipmq.move_messages(p_queue_id integer, p_ids bigint[], p_target integer)
returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_fifo boolean;
  v_target boolean;
  v_groups bigint[];
  v_free bigint[];
  v_held bigint[];
  v_tids tid[];
begin
  select q.fifo into v_fifo from skipmq.queue q where q.queue_id = p_queue_id;
  select q.fifo into v_target from skipmq.queue q where q.queue_id = p_target for key share;
  if v_fifo is null or v_target is null then
    raise exception 'no queue has the generation % or %', p_queue_id, p_target using errcode = 'SQ005';
  elsif v_fifo <> v_target then
    raise exception 'Messages move between queues of the same type.' using errcode = 'SQ007';
  end if;
  if v_fifo then
    v_groups := skipmq.lock_groups(p_queue_id, p_ids);
  end if;
  select l.free, l.held, l.tids into v_free, v_held, v_tids from skipmq.lock_picked(p_queue_id, p_ids, v_now) l;
  if v_free is null then
    null;
  elsif v_fifo then
    perform skipmq.append_fifo(p_queue_id, v_free, array_fill(p_target, array[cardinality(v_free)]), 'redriven');
    perform skipmq.refresh_groups(p_queue_id, v_groups);
  else
    perform skipmq.resend(p_queue_id, v_tids, array_fill(p_target, array[cardinality(v_tids)]), v_now);
  end if;
  return query
  select u.place, case
    when u.id = any (v_free) then 'moved' when u.id = any (v_held) then 'in-flight' else 'missing' end
  from unnest(p_ids) with ordinality u (id, place)
  order by u.place;
end $$;
-- Does: moves up to p_limit visible messages of a shard of a standard queue that have been received p_most times to
--   its dead-letter queue, where they are visible at once, with a row of history each; gives their number.
-- Called by: clear_head.
-- Locks, in order: queue row of the dead-letter queue (shared: it is neither purged nor deleted
--   meanwhile), message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible, and those of write_history.
--
-- The move raises the fencing token, so that old receipts no longer match, and hides that from the count that users see.
create function skipmq.move_to_dead_letter_queue(
  p_queue_id integer, p_shard smallint, p_target integer, p_most integer, p_from timestamptz, p_to timestamptz, p_limit integer
) returns integer
language plpgsql volatile
as $$
declare
  v_source record;
  v_now timestamptz;
  v_tids tid[];
  v_count integer;
begin
  select q.account, q.region, q.name into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then -- Purged a moment ago.
    return 0;
  end if;
  perform from skipmq.queue q where q.queue_id = p_target for key share;
  if not found then
    return 0;
  end if;
  v_now := skipmq.write_time();
  v_tids := array(
    select m.ctid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
      and m.visible_at >= p_from and m.visible_at <= p_to
      and m.receive_count - m.receive_base >= p_most
    order by m.visible_at
    limit p_limit
    for no key update skip locked);
  perform skipmq.write_history(v_tids, 'dead-lettered', v_now);
  update skipmq.message m set
    queue_id = p_target,
    shard = 0,
    visible_at = v_now,
    receive_count = m.receive_count + 1,
    receive_base = m.receive_base + 1,
    dead_letter_source = format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
  where m.ctid = any (v_tids);
  get diagnostics v_count = row_count;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change, event)
    values (v_now, p_queue_id, -v_count, 'dead-lettered'), (v_now, p_target, v_count, 'moved-in');
  end if;
  return v_count;
end $$;
-- Does: gives the clock's time moved by the session setting skipmq.clock_offset.
-- Called by: clock, when the setting is set.
-- Locks, in order: none.
-- Raises: 42501 when the session's user is no member of the schema's owner.
-- Relies on index: none.
create function skipmq.moved_clock() returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not pg_has_role(session_user, (select nspowner from pg_namespace where nspname = 'skipmq'), 'member') then
    raise exception 'only the owner of the schema may move the clock' using errcode = '42501';
  end if;
  return clock_timestamp() + current_setting('skipmq.clock_offset')::interval;
end $$;
-- Does: shows the messages that came to a queue last, without receiving them, newest first: up to p_limit of those since
--   p_since, with the first p_characters characters of their bodies.
-- Called by: the console.
-- Locks, in order: none.
-- Raises: SQ005 when no queue has this generation.
-- Relies on index: queue_id, message_visible; for FIFO message_enqueued.
--
-- It reads each end of the index backwards, 500 entries at most: what waits, by when it became visible, and what is in
-- flight, by when that ends. A message that is received and deleted between two calls is not seen, nor perhaps one of very many
-- in flight. A delayed message is shown at once.
create function skipmq.newest_messages(
  p_queue_id integer, p_since timestamptz default null, p_limit integer default 50, p_characters integer default 2048
) returns table (
  id bigint, came_at timestamptz, state text, message_id uuid, group_id text, characters integer, body text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_queue skipmq.queue;
  v_since timestamptz;
begin
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
  v_since := greatest(p_since, v_now - make_interval(secs => v_queue.message_retention_period));
  if v_queue.fifo then
    return query
    select m.id, m.enqueued_at, case when m.visible_at <= v_now then 'visible'
      when m.receive_count = m.receive_base then 'delayed' else 'in-flight' end,
      m.message_id, m.group_id, length(m.body), left(m.body, p_characters)
    from skipmq.message m
    where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > v_since
    order by m.enqueued_at desc
    limit p_limit;
    return;
  end if;
  return query
  select n.id, n.came_at, n.state, n.message_id, n.group_id, length(n.body), left(n.body, p_characters)
  from (
    select e.*, case when e.visible_at <= v_now then 'visible'
        when e.receive_count = e.receive_base then 'delayed' else 'in-flight' end as state,
      -- A dead letter became visible when it was moved here, and keeps its receive count and the time of its send.
      case
        when e.visible_at <= v_now and (e.receive_count = e.receive_base or e.dead_letter_source is not null)
          then e.visible_at
        else e.sent_at end as came_at
    from (values (0::smallint), (1::smallint), (2::smallint)) s (shard)
    cross join (values (v_since, v_now), (v_now, 'infinity'::timestamptz)) r (above, most)
    cross join lateral (
      select m.*
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = s.shard and m.visible_at > r.above and m.visible_at <= r.most
        and m.group_no is null
      order by m.visible_at desc
      limit 500
    ) e
  ) n
  where n.came_at > v_since
  order by n.came_at desc, n.id desc
  limit p_limit;
end $$;
-- Does: notes that access keys were used, at most once a minute each.
-- Called by: nodes that check signatures, for many requests at once.
-- Locks, in order: access keys, those skipped that somebody else holds.
-- Raises: nothing.
-- Relies on index: access_key_pkey.
create function skipmq.note_access_key_use(p_key_ids text[]) returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  update skipmq.access_key k set last_used_at = skipmq.clock()
  where k.key_id in (
    select u.key_id from skipmq.access_key u
    where u.key_id = any (p_key_ids)
      and coalesce(u.last_used_at < skipmq.clock() - interval '1 minute', true)
    for no key update skip locked)
$$;
-- Does: gives for how many seconds the visible message that is due first has been in its queue (null: none is visible).
--   On a FIFO queue it is the one that arrived first.
-- Called by: queue_statistics.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible, message_enqueued.
create function skipmq.oldest_message(p_queue_id integer, p_fifo boolean) returns float8
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
begin
  if p_fifo then
    return (
      select extract(epoch from v_now - m.enqueued_at)
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > '-infinity'
      order by m.enqueued_at
      limit 1);
  end if;
  return (
    select max(extract(epoch from v_now - f.enqueued_at))
    from unnest('{0,2}'::smallint[]) s (shard)
    cross join lateral (
      select m.enqueued_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= v_now
      order by m.visible_at
      limit 1
    ) f);
end $$;
-- Does: gives since when the oldest transaction has been open that keeps this database from clearing up: one here
--   that has a snapshot or wrote, one of another database that wrote (every snapshot here keeps what it might see),
--   one that is prepared, since then. Null when there is none.
-- Called by: the janitor, for skipmq_oldest_snapshot_seconds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Where the owner of the schema is not in pg_monitor it sees only sessions of roles that it has. Nobody notes since
-- when a replication slot or a standby with hot_standby_feedback holds something, so that they are not in it.
create function skipmq.oldest_snapshot(out began timestamptz, out session text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.began, t.session
  from (
    select a.xact_start, format(
      '%s, process %s, user %s, database %s',
      coalesce(nullif(a.application_name, ''), a.backend_type), a.pid, a.usename, a.datname)
    from pg_stat_activity a
    where (a.backend_xid is not null or (a.backend_xmin is not null and a.datname = current_database()))
      and a.pid <> pg_backend_pid()
      -- A vacuum shows a snapshot, but nothing is kept for it.
      and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
    union all
    select p.prepared, format('prepared transaction %s, user %s, database %s', p.gid, p.owner, p.database)
    from pg_prepared_xacts p
  ) t (began, session)
  where t.began is not null
  order by t.began
  limit 1
$$;
-- Does: shows up to p_limit messages of a queue without receiving them, in the order in which they become
--   visible, those that were received last (FIFO: of their arrival), from the one after p_after on; of one state or of
--   all: visible, in-flight or delayed. place is what to give as p_after for the next page. With p_bytes the page ends
--   with the message whose body and attributes make it so many bytes, or more.
-- Called by: the PeekMessages action; SQL users.
-- Locks, in order: none.
-- Raises: SQ005 when no queue has this generation.
-- Relies on index: queue_id, message_visible; for FIFO message_enqueued.
--
-- It passes over what is of another state one by one. A message that is received between two pages may
-- come twice.
create function skipmq.peek_messages(
  p_queue_id integer, p_state text default null, p_limit integer default 10, p_after text default null,
  p_bytes bigint default null
) returns table (
  place text, id bigint, state text, visible_in interval, message_id uuid, body text, attributes text,
  approximate_receive_count integer, sent_at timestamptz, first_received_at timestamptz, group_id text,
  sender text, trace_header text, dead_letter_source text, sequence_number bigint, deduplication_id text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_queue skipmq.queue;
  v_delay interval;
  v_horizon timestamptz;
  v_after text[] := string_to_array(p_after, '/');
begin
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
  v_horizon := v_now - make_interval(secs => v_queue.message_retention_period);
  if v_queue.fifo then
    v_delay := make_interval(secs => v_queue.delay_seconds);
    return query
    select concat_ws('/', extract(epoch from m.enqueued_at), m.sequence_number), m.id, m.state,
      greatest(m.due_at - v_now, '0'), m.message_id, m.body, m.attributes, m.receive_count - m.receive_base,
      m.sent_at, m.first_received_at, m.group_id, m.sender, m.trace_header, m.dead_letter_source,
      m.sequence_number, m.deduplication_id
    from (
      select m.*, s.due_at, s.state,
        sum(octet_length(m.body) + coalesce(octet_length(m.attributes), 0)) over (
          order by m.enqueued_at, m.sequence_number rows between unbounded preceding and 1 preceding) as bytes_before
      from skipmq.message m
      cross join lateral (
        select
          m.visible_at + case when m.receive_count = m.receive_base then v_delay else '0' end as due_at
      ) v
      cross join lateral (
        select v.due_at, case
          when v.due_at <= v_now then 'visible'
          when m.receive_count = m.receive_base then 'delayed'
          else 'in-flight' end as state
      ) s
      where m.queue_id = p_queue_id and m.group_no is not null
        and (m.enqueued_at, m.sequence_number) > (
          coalesce(to_timestamp(v_after[1]::numeric), '-infinity'), coalesce(v_after[2]::bigint, -1))
        and m.enqueued_at > v_horizon and (p_state is null or s.state = p_state)
      order by m.enqueued_at, m.sequence_number
      limit p_limit
    ) m
    where p_bytes is null or coalesce(m.bytes_before, 0) < p_bytes
    order by m.enqueued_at, m.sequence_number;
    return;
  end if;
  return query
  select concat_ws('/', m.shard, extract(epoch from m.visible_at), m.id), m.id, m.state,
    greatest(m.visible_at - v_now, '0'), m.message_id, m.body, m.attributes, m.receive_count - m.receive_base,
    m.sent_at, m.first_received_at, m.group_id, m.sender, m.trace_header, m.dead_letter_source, null::bigint,
    null::text
  from (
    select m.*, s.state,
      sum(octet_length(m.body) + coalesce(octet_length(m.attributes), 0)) over (
        order by m.shard, m.visible_at, m.id rows between unbounded preceding and 1 preceding) as bytes_before
    from skipmq.message m
    cross join lateral (
      select case
        when m.visible_at <= v_now then 'visible'
        when m.receive_count = m.receive_base then 'delayed'
        else 'in-flight' end as state
    ) s
    where m.queue_id = p_queue_id and m.group_no is null
      and (m.shard, m.visible_at, m.id) > (
        coalesce(v_after[1]::smallint, -1), coalesce(to_timestamp(v_after[2]::numeric), '-infinity'),
        coalesce(v_after[3]::bigint, -1))
      and m.enqueued_at > v_horizon and (p_state is null or s.state = p_state)
    order by m.shard, m.visible_at, m.id
    limit p_limit
  ) m
  where p_bytes is null or coalesce(m.bytes_before, 0) < p_bytes
  order by m.shard, m.visible_at, m.id;
end $$;
-- Does: empties a queue at once, in-flight messages and deduplication ids included, by giving its name a new
--   generation.
-- Called by: the PurgeQueue action; SQL users.
-- Locks, in order: advisory lock of the generation (SQL users' transactions that sent to it are over then), queue row,
--   generation row.
-- Raises: SQ005 when no queue has this generation, SQ004 within p_cooldown of the last purge.
-- Relies on index: queue_id, generation_pkey.
create function skipmq.purge_queue(p_queue_id integer, p_cooldown interval default '60 seconds')
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queue skipmq.queue;
  v_id integer;
begin
  perform pg_advisory_xact_lock(hashtext('skipmq.queue'), p_queue_id);
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id for update;
  if not found then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
  if v_queue.purged_at > v_now - p_cooldown then
    raise exception 'Only one PurgeQueue operation on % is allowed every % seconds.',
      v_queue.name, extract(epoch from p_cooldown)::integer using errcode = 'SQ004';
  end if;
  update skipmq.queue q set queue_id = nextval('skipmq.queue_id_seq'), purged_at = v_now
  where q.queue_id = p_queue_id
  returning q.queue_id into v_id;
  update skipmq.generation g
  set retired_at = v_now, retired_as = 'purged', history_mode = v_queue.history_mode
  where g.queue_id = p_queue_id;
  insert into skipmq.generation (queue_id, account, region, name, history_mode, created_at)
  values (v_id, v_queue.account, v_queue.region, v_queue.name, v_queue.history_mode, v_now);
  return v_id;
end $$;
-- Does: gives a queue's attributes under their SQS names, all values as text.
-- Called by: create_queue, get_queue.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.queue_attributes(p_queue skipmq.queue) returns jsonb
language sql immutable
as $$
  select jsonb_build_object(
    'VisibilityTimeout', p_queue.visibility_timeout::text,
    'DelaySeconds', p_queue.delay_seconds::text,
    'MaximumMessageSize', p_queue.maximum_message_size::text,
    'MessageRetentionPeriod', p_queue.message_retention_period::text,
    'ReceiveMessageWaitTimeSeconds', p_queue.receive_message_wait_time_seconds::text,
    'Policy', p_queue.policy,
    'RedrivePolicy', p_queue.redrive_policy,
    'RedriveAllowPolicy', p_queue.redrive_allow_policy,
    'KmsMasterKeyId', p_queue.kms_master_key_id,
    'KmsDataKeyReusePeriodSeconds', p_queue.kms_data_key_reuse_period_seconds::text,
    'SqsManagedSseEnabled', p_queue.sqs_managed_sse_enabled::text,
    'HistoryMode', p_queue.history_mode,
    'ReplicationMode', p_queue.replication_mode)
    || case when p_queue.fifo then jsonb_build_object(
      'FifoQueue', 'true',
      'ContentBasedDeduplication', p_queue.content_based_deduplication::text,
      'DeduplicationScope', p_queue.deduplication_scope,
      'FifoThroughputLimit', p_queue.fifo_throughput_limit)
    else '{}' end
$$;
-- Does: lists what roles may do with queues by SQL, by role, account, region and queue.
-- Called by: `skipmq grants`, as the owner.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Not for nodes.
create function skipmq.queue_grants()
returns table (
  role text, account text, region text, queue text, may_send boolean, may_receive boolean, granted_at timestamptz,
  granted_by text
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select r.rolname, g.account, g.region, g.queue, g.may_send, g.may_receive, g.granted_at, g.granted_by
  from skipmq.queue_grant g
  join pg_roles r on r.oid = g.role
  order by r.rolname, g.account, g.region, g.queue
$$;
-- Does: gives the present generation of a queue, by name: the first parameter of the message functions.
-- Called by: hold_queue, receive_message, delete_message, change_message_visibility; SQL users.
-- Locks, in order: none.
-- Raises: SQ001 when there is no such queue.
-- Relies on index: queue_pkey.
create function skipmq.queue_id(
  p_name text,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id integer;
begin
  select q.queue_id into v_id from skipmq.queue q
  where q.account = p_account and q.region = p_region and q.name = p_name;
  if v_id is null then
    raise exception 'The specified queue does not exist.'
      using errcode = 'SQ001', hint = format('select skipmq.create_queue(%L)', p_name);
  end if;
  return v_id;
end $$;
-- Does: gives what happened to the messages of generations of queues in each of the last p_minutes minutes, the present
--   one with them, oldest first; a minute in which nothing did has no row. Six hours are kept.
-- Called by: the console, `skipmq queue stats`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_minute_pkey.
create function skipmq.queue_minutes(p_queue_ids integer[], p_minutes integer default 60)
returns table (
  queue_id integer, minute timestamptz, sent bigint, received bigint, deleted bigint, dead_lettered bigint,
  messages bigint
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select m.queue_id, m.minute, m.sent, m.received, m.deleted, m.dead_lettered, m.messages
  from skipmq.queue_minute m
  where m.queue_id = any (p_queue_ids)
    and m.minute > date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes)
  order by m.queue_id, m.minute;
$$;
-- Does: finds the present generation of the queue that an ARN names; null when there is none.
-- Called by: start_move_task, start_message_task, advance_move_tasks, is_redrivable, queue_since.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey.
create function skipmq.queue_of_arn(p_arn text) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.queue_id
  from skipmq.queue q
  where q.account = split_part(p_arn, ':', 5)
    and q.region = split_part(p_arn, ':', 4)
    and q.name = split_part(p_arn, ':', 6)
    and p_arn = format('arn:aws:sqs:%s:%s:%s', q.region, q.account, q.name)
$$;
-- Does: gives when the queue that an ARN names was created, null when there is none: older tasks are those of a deleted
--   queue of its name.
-- Called by: add_move_task, advance_move_tasks, cancel_move_task, list_move_tasks.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, and that of queue_of_arn.
create function skipmq.queue_since(p_arn text) returns timestamptz
language sql stable
as $$
  select q.created_at from skipmq.queue q where q.queue_id = skipmq.queue_of_arn(p_arn)
$$;
-- Does: gives what happened in each queue since it was made or purged, what happens a second now (over the last one to
--   two minutes), and what it holds, for up to p_limit queues after p_offset: by name, by messages, by rate (what is
--   sent and deleted), or by what went to a dead-letter queue; names from the first, numbers from the most unless
--   p_descending says otherwise. One row more, whose queue is null, has the
--   sums of all that match and are not given, and their number in `queues`.
-- Called by: /metrics, the ListQueueStatistics action, `skipmq queue stats`, `skipmq top`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_count_pkey, queue_minute_pkey, queue_dead_letter, and those of count_messages and oldest_message.
--
-- p_account and p_region may be null, for all; p_search is a part of the name. Only of the queues that are given are
-- visible, in flight, delayed and oldest found out: what waits costs nothing however many queues there are.
create function skipmq.queue_statistics(
  p_account text default null, p_region text default null, p_search text default '', p_order text default 'name',
  p_limit integer default 100, p_offset integer default 0, p_descending boolean default null
) returns table (
  account text, region text, queue text, queue_id integer, queues bigint, messages bigint, visible bigint,
  in_flight bigint, delayed bigint, oldest float8, sent bigint, bytes_sent bigint, received bigint,
  empty_receives bigint, deleted bigint, expired bigint, dead_lettered bigint, redriven bigint, moved_in bigint,
  send_rate float8, receive_rate float8, delete_rate float8,
  fifo boolean, policy text, dead_letters boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
-- A plan for any order and search reads queue_minute once for each queue.
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_minute timestamptz := date_trunc('minute', v_now);
  -- By numbers the most come first where they are multiplied by it.
  v_sign integer := case when coalesce(p_descending, true) then -1 else 1 end;
  v_seconds float8 := 60 + extract(epoch from v_now - v_minute);
begin
  return query
  with matching as materialized (
    select
      q.account, q.region, q.name, q.queue_id, q.fifo, q.policy, coalesce(greatest(c.messages, 0), 0) as messages,
      coalesce(c.sent, 0) as sent, coalesce(c.bytes_sent, 0) as bytes_sent, coalesce(c.received, 0) as received,
      coalesce(c.empty_receives, 0) as empty_receives, coalesce(c.deleted, 0) as deleted,
      coalesce(c.expired, 0) as expired, coalesce(c.dead_lettered, 0) as dead_lettered,
      coalesce(c.redriven, 0) as redriven, coalesce(c.moved_in, 0) as moved_in,
      coalesce(r.sent / v_seconds, 0) as send_rate, coalesce(r.received / v_seconds, 0) as receive_rate,
      coalesce(r.deleted / v_seconds, 0) as delete_rate
    from skipmq.queue q
    left join skipmq.queue_count c on c.queue_id = q.queue_id
    left join (
      select
        m.queue_id, sum(m.sent)::float8 as sent, sum(m.received)::float8 as received, sum(m.deleted)::float8 as deleted
      from skipmq.queue_minute m
      where m.minute >= v_minute - interval '1 minute'
      group by m.queue_id
    ) r on r.queue_id = q.queue_id
    where (p_account is null or q.account = p_account) and (p_region is null or q.region = p_region)
      and (p_search = '' or strpos(lower(q.name), lower(p_search)) > 0)
  ), given as materialized (
    select m.*, row_number() over () as place
    from (
      select m.*
      from matching m
      order by
        case p_order
          when 'messages' then m.messages
          when 'rate' then m.send_rate + m.delete_rate
          when 'dead-lettered' then m.dead_lettered
        end * v_sign,
        case when p_order <> 'name' then m.messages * v_sign end,
        case when p_order = 'name' and p_descending then m.name end desc,
        m.name, m.account, m.region
      limit p_limit offset p_offset
    ) m
  )
  (
    select
      g.account, g.region, g.name, g.queue_id, 1::bigint, g.messages, n.visible, n.in_flight, n.delayed,
      case when n.visible > 0 then skipmq.oldest_message(g.queue_id, g.fifo) end,
      g.sent, g.bytes_sent, g.received, g.empty_receives, g.deleted, g.expired, g.dead_lettered, g.redriven, g.moved_in,
      g.send_rate, g.receive_rate, g.delete_rate, g.fifo, g.policy,
      exists (
        select from skipmq.queue r
        where r.dead_letter_account = g.account and r.region = g.region and r.dead_letter_name = g.name)
    from given g
    cross join lateral skipmq.count_messages(g.queue_id) n
    order by g.place
  )
  union all
  select
    null, null, null, null, count(*), coalesce(sum(m.messages), 0)::bigint, null, null, null, null,
    coalesce(sum(m.sent), 0)::bigint, coalesce(sum(m.bytes_sent), 0)::bigint, coalesce(sum(m.received), 0)::bigint,
    coalesce(sum(m.empty_receives), 0)::bigint, coalesce(sum(m.deleted), 0)::bigint,
    coalesce(sum(m.expired), 0)::bigint, coalesce(sum(m.dead_lettered), 0)::bigint,
    coalesce(sum(m.redriven), 0)::bigint, coalesce(sum(m.moved_in), 0)::bigint,
    coalesce(sum(m.send_rate), 0), coalesce(sum(m.receive_rate), 0), coalesce(sum(m.delete_rate), 0),
    null, null, null
  from matching m
  where not exists (select from given g where g.queue_id = m.queue_id);
end $$;
-- Does: gives the keys that authenticate receipt handles, the same for all nodes, newest first: the newest, and those that
--   a newer one replaced less than 12 hours ago, the longest time for which a message is hidden. The age is in seconds.
-- Called by: nodes, when they start, when a key is replaced, and every ten seconds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: receipt_key_pkey.
--
-- The two minutes more are for nodes that make handles with the replaced key until all know the new one.
create function skipmq.receipt_keys() returns table (key bytea, age float8)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select k.key, extract(epoch from skipmq.clock() - k.made_at)::float8
  from (
    select r.key, r.made_at, lag(r.made_at) over (order by r.made_at desc) as replaced_at
    from skipmq.receipt_key r
  ) k
  where k.replaced_at is null or k.replaced_at > skipmq.clock() - interval '12 hours 2 minutes'
  order by k.made_at desc
$$;
-- Does: receives from a FIFO queue under a ReceiveRequestAttemptId: what receive_fifo_messages gives; or,
--   for an attempt of the last five minutes whose messages nobody has deleted or changed since, the same
--   messages and receipts again, hidden for p_visibility_timeout seconds from now on.
-- Called by: the ReceiveMessage action; SQL users.
-- Locks, in order: advisory lock of the attempt, then those of lock_groups or receive_fifo_messages.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is not FIFO; for an SQL user
--   (p_commit is null) SQ008 when the attempt's id is invalid, and what check_receive raises.
-- Relies on index: receive_attempt_pkey, message_pkey, and those of the functions it calls.
--
-- Source: SQS API Reference, ReceiveMessage, ReceiveRequestAttemptId.
create function skipmq.receive_fifo_attempt(
  p_queue_id integer,
  p_attempt_id text,
  p_limit integer default 1,
  p_visibility_timeout integer default null,
  p_commit text default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, sequence_number bigint, deduplication_id text, next_visible_in interval
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_until timestamptz;
  v_attempt skipmq.receive_attempt;
  v_groups bigint[];
begin
  if p_commit is null then
    p_limit := skipmq.check_receive(p_limit, p_visibility_timeout);
    if skipmq.is_identifier(p_attempt_id) is not true then
      raise exception 'Value % for parameter ReceiveRequestAttemptId is invalid. Reason: ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length.',
        skipmq.shown(p_attempt_id) using errcode = 'SQ008';
    end if;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('attempt ' || p_attempt_id, p_queue_id));
  v_now := skipmq.clock();
  select a.* into v_attempt
  from skipmq.receive_attempt a
  where a.queue_id = p_queue_id and a.attempt_id = p_attempt_id
    and a.received_at > v_now - interval '5 minutes' and a.hidden_until > v_now;
  if found then
    v_groups := skipmq.lock_groups(p_queue_id, v_attempt.ids);
    select v_now + greatest(
      make_interval(secs => coalesce(p_visibility_timeout, q.visibility_timeout)), interval '1 microsecond')
    into v_until
    from skipmq.queue q where q.queue_id = p_queue_id;
    if v_until is not null and (
      select count(*) = cardinality(v_attempt.ids)
      from unnest(v_attempt.ids, v_attempt.receive_counts) u (id, receive_count)
      join skipmq.message m on m.id = u.id and m.queue_id = p_queue_id
        and m.receive_count = u.receive_count and m.visible_at = v_attempt.hidden_until)
    then
      update skipmq.receive_attempt a set hidden_until = v_until
      where a.queue_id = p_queue_id and a.attempt_id = p_attempt_id;
      update skipmq.message m set visible_at = v_until where m.id = any (v_attempt.ids);
      perform skipmq.refresh_groups(p_queue_id, v_groups);
      return query
      select
        m.id, m.receive_count, v_attempt.received_at, m.message_id, m.body, m.attributes,
        m.receive_count - m.receive_base, m.sent_at, m.first_received_at, m.group_id, m.sender,
        m.trace_header, m.dead_letter_source, m.sequence_number, m.deduplication_id, null::interval
      from unnest(v_attempt.ids) with ordinality u (id, place)
      join skipmq.message m on m.id = u.id
      order by u.place;
      return;
    end if;
  end if;

  return query
  with given as materialized (
    select r.* from skipmq.receive_fifo_messages(p_queue_id, p_limit, p_visibility_timeout, p_commit) r
  ), noted as (
    insert into skipmq.receive_attempt as a (queue_id, attempt_id, received_at, hidden_until, ids, receive_counts)
    select
      p_queue_id, p_attempt_id, g.received_at,
      g.received_at + greatest(
        make_interval(secs => coalesce(p_visibility_timeout, q.visibility_timeout)), interval '1 microsecond'),
      array_agg(g.id), array_agg(g.receive_count)
    from given g
    join skipmq.queue q on q.queue_id = p_queue_id
    where g.id is not null
    group by g.received_at, q.visibility_timeout
    on conflict on constraint receive_attempt_pkey do update set
      received_at = excluded.received_at,
      hidden_until = excluded.hidden_until,
      ids = excluded.ids,
      receive_counts = excluded.receive_counts
  )
  select g.* from given g;
end $$;
-- Does: claims up to p_limit messages of a FIFO queue and hides them, as claim_fifo_messages does for several receives.
--   When there is none it gives one row without an id, as receive_messages does.
-- Called by: receive_fifo_attempt; SQL users.
-- Locks, in order: those of claim_fifo_messages.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is not FIFO; what check_receive raises.
-- Relies on index: those of claim_fifo_messages.
--
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is, and is for SQL users,
-- whose limit and timeout are checked here: the nodes have checked theirs.
create function skipmq.receive_fifo_messages(
  p_queue_id integer, p_limit integer default 1, p_visibility_timeout integer default null, p_commit text default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, sequence_number bigint, deduplication_id text, next_visible_in interval
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_commit is null then
    p_limit := skipmq.check_receive(p_limit, p_visibility_timeout);
  end if;
  return query
  select
    c.id, c.receive_count, c.received_at, c.message_id, c.body, c.attributes, c.approximate_receive_count, c.sent_at,
    c.first_received_at, c.group_id, c.sender, c.trace_header, c.dead_letter_source, c.sequence_number,
    c.deduplication_id, c.next_visible_in
  from skipmq.claim_fifo_messages(p_queue_id, array[p_limit], p_visibility_timeout, p_commit) c;
end $$;
-- Does: claims up to p_limit messages of the queue of that name, standard or FIFO, and hides them for
--   p_visibility_timeout seconds (null: the queue's); those of a FIFO group in order. No rows when there is none.
-- Called by: SQL users.
-- Locks, in order: those of check_grant, then of receive_messages or receive_fifo_messages.
-- Raises: what check_grant and check_receive raise; SQ001 when there is no such queue, SQ005 when it is purged or deleted
--   in this instant: call again.
-- Relies on index: queue_pkey, and those of the functions it calls.
--
-- receive_count is the fencing token that a delete names, and grows with each receive; approximate_receive_count is what
-- SQS shows.
create function skipmq.receive_message(
  p_queue text,
  p_limit integer default 1,
  p_visibility_timeout integer default null,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns table (
  id bigint, receive_count integer, message_id uuid, body text, attributes jsonb, group_id text,
  sequence_number bigint, deduplication_id text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, sender text, trace_header text, dead_letter_source text
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id integer;
  v_count integer;
begin
  perform skipmq.check_grant('receive', p_queue, p_account, p_region);
  v_queue_id := skipmq.queue_id(p_queue, p_account, p_region);
  if p_queue collate "C" like '%.fifo' then
    return query
    select
      r.id, r.receive_count, r.message_id, r.body, r.attributes::jsonb, r.group_id, r.sequence_number,
      r.deduplication_id, r.approximate_receive_count, r.sent_at, r.first_received_at, r.sender, r.trace_header,
      r.dead_letter_source
    from skipmq.receive_fifo_messages(v_queue_id, p_limit, p_visibility_timeout) r
    where r.id is not null;
  else
    return query
    select
      r.id, r.receive_count, r.message_id, r.body, r.attributes::jsonb, r.group_id, null::bigint,
      null::text, r.approximate_receive_count, r.sent_at, r.first_received_at, r.sender, r.trace_header,
      r.dead_letter_source
    from skipmq.receive_messages(v_queue_id, p_limit, p_visibility_timeout) r
    where r.id is not null;
  end if;
  get diagnostics v_count = row_count;
  perform skipmq.add_receives(array[v_queue_id], array[v_count], array[(v_count = 0)::integer]);
end $$;
-- Does: claims up to p_limit visible messages of a standard queue and hides them for p_visibility_timeout
--   seconds (null: the queue's). What has been received as often as the redrive policy allows goes to the
--   dead-letter queue instead. When there is no message it gives one row without an id, whose next_visible_in
--   says how long until the next one becomes visible (null: none will). What was received before comes first: it was
--   sent before what waits. Where messages have groups, those of noisy tenants come last (SQS Developer Guide, fair queues).
-- Called by: the ReceiveMessage action; SQL users.
-- Locks, in order: message rows, skipping those that others hold; those of clear_head.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is FIFO; what check_receive raises.
-- Relies on index: queue_id, message_visible, noisy_tenant_pkey.
--
-- No visible message lies before p_low_watermark (low_watermark says how that is known). The claim starts at
-- p_scan_start, where the last one ended (the last row's scan_start), and at p_low_watermark when that gave too
-- little. Of what was received before, which is shard 2, none lies before p_received_low; a claim from p_scan_start takes
-- it last. Both bounds hold while all transactions of p_held are open; after one has ended, scan_from says what holds.
-- Messages past retention are excluded by the index condition.
-- p_within bounds how far ahead next_visible_in reads: in-flight messages that were deleted lie there too.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is, and is for SQL users,
-- whose limit and timeout are checked here: the nodes have checked theirs.
create function skipmq.receive_messages(
  p_queue_id integer, p_limit integer default 1, p_visibility_timeout integer default null,
  p_commit text default null, p_low_watermark timestamptz default null, p_scan_start timestamptz default null,
  p_within interval default null, p_held bigint[] default null, p_held_low bigint[] default null,
  p_received_low timestamptz default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, next_visible_in interval, scan_start timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_fifo boolean;
  v_timeout integer;
  v_horizon timestamptz;
  v_max integer;
  v_tenants boolean;
  v_until timestamptz;
  v_dead_letter_queue integer;
  v_most integer := 2147483647;
  v_noisy text[];
  v_shards smallint[] := case when p_scan_start is null then '{2,0}' else '{0,2}' end;
  v_shard smallint;
  v_low timestamptz;
  v_from timestamptz;
  v_left integer;
  v_got integer;
  v_rounds integer := 0;
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  else
    p_limit := skipmq.check_receive(p_limit, p_visibility_timeout);
  end if;
  v_left := p_limit;
  select
    q.fifo, coalesce(p_visibility_timeout, q.visibility_timeout),
    v_now - make_interval(secs => q.message_retention_period), q.max_receive_count, q.tenants
  into v_fifo, v_timeout, v_horizon, v_max, v_tenants
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is distinct from false then
    perform skipmq.check_generation(p_queue_id, false);
  end if;
  if v_max is not null then
    -- Without a dead-letter queue, or when that has been deleted, nothing is received too often.
    v_dead_letter_queue := skipmq.dead_letter_queue(p_queue_id);
    v_most := case when v_dead_letter_queue is null then v_most else v_max end;
  end if;
  if v_tenants then
    v_noisy := array(select t.group_id from skipmq.noisy_tenant t where t.queue_id = p_queue_id and t.until > v_now);
    -- Noisy tenants come last, but first in one receive of ten, so that they never starve.
    v_shards := case when random() < 0.9 then v_shards || 1::smallint else 1::smallint || v_shards end;
  end if;
  v_now := case when v_timeout < 5 then skipmq.write_time() else v_now end;
  if p_held is not null then
    p_low_watermark := skipmq.scan_from(p_low_watermark, p_held, p_held_low);
    p_received_low := skipmq.scan_from(p_received_low, p_held, p_held_low);
  end if;
  -- Never now itself: what this call has claimed must not be claimed again by its next round.
  v_until := v_now + greatest(make_interval(secs => v_timeout), interval '1 microsecond');

  foreach v_shard in array v_shards loop
    -- Deprioritised messages keep their time: shard 1 has no watermark. One that lies ahead: the clock was put back.
    v_from := case v_shard when 0 then p_low_watermark when 2 then p_received_low end;
    v_low := greatest(v_horizon, case when v_from <= v_now then v_from end);
    v_from := greatest(v_low, case when v_shard = 0 and p_scan_start <= v_now then p_scan_start end);
    if v_shard = 2 then
      -- Mostly there is none, which a probe finds out at less cost than a claim.
      perform from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = 2 and m.group_no is null
        and m.visible_at >= v_low and m.visible_at <= v_now
      order by m.visible_at limit 1;
      continue when not found;
    end if;
    loop
      return query
      with candidate as materialized (
        select m.ctid as tid, m.visible_at, m.enqueued_at, m.group_id, m.receive_count - m.receive_base as received
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = v_shard and m.group_no is null
          and m.visible_at >= v_from and m.visible_at <= v_now
        order by m.visible_at limit v_left
        for no key update skip locked
      )
      update skipmq.message m set
        visible_at = v_until, shard = case v_shard when 0 then 2 else v_shard end,
        receive_count = m.receive_count + 1,
        first_received_at = coalesce(m.first_received_at, v_now)
      from candidate c
      where m.ctid = c.tid and c.enqueued_at > v_horizon and c.received < v_most
        and (v_shard <> 0 or c.group_id = any (v_noisy) is not true)
      returning
        m.id, m.receive_count, v_now, m.message_id, m.body, m.attributes,
        m.receive_count - m.receive_base, m.sent_at, m.first_received_at, m.group_id, m.sender,
        m.trace_header, m.dead_letter_source, null::interval, case when v_shard = 0 then c.visible_at end;
      get diagnostics v_got = row_count;
      v_left := v_left - v_got;
      exit when v_left = 0;
      if v_from > v_low then
        v_from := v_low;
        continue;
      end if;
      -- Too few: the shard is empty, or its head is expired, received too often or noisy. A call ends soon,
      -- however much lies there: the next one goes on.
      v_rounds := v_rounds + 1;
      exit when v_rounds > 10 or skipmq.clear_head(
        p_queue_id, v_shard, v_from, v_now, v_horizon, v_dead_letter_queue, v_most,
        case when v_shard = 0 and v_rounds <= 3 then v_noisy end) = 0;
    end loop;
    exit when v_left = 0;
  end loop;

  if v_left = p_limit then
    received_at := v_now;
    next_visible_in := case when v_rounds > 10 then interval '0' else (
      select min(n.visible_at)
      from unnest(v_shards) s (shard)
      cross join lateral (
        select m.visible_at
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
          and m.visible_at > v_now and m.visible_at <= v_now + coalesce(p_within, interval '20 years')
        order by m.visible_at limit 1
      ) n) - v_now end;
    return next;
  end if;
end $$;
-- Does: records that an export has all of a day of the history: p_rows rows, all of transactions below p_to, in files
--   that it has just seen. Gives false, and withdraws what was recorded, while that is not so: the day is not over,
--   transactions below p_to may still be open, or the day has other rows. Of a day that was dropped it gives true.
-- Called by: the export, as a node; SQL users.
-- Locks, in order: archived_day row.
-- Raises: nothing.
-- Relies on index: archived_day_pkey.
--
-- It counts the day's rows itself, so that a day is dropped on the word of the database, not of the export. Once: what
-- is settled in the day later is seen by drop_history_partitions.
create function skipmq.record_archived_day(p_day date, p_rows bigint, p_to bigint) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
  v_from timestamptz := p_day::timestamp at time zone 'UTC';
  v_until timestamptz := (p_day + 1)::timestamp at time zone 'UTC';
  v_rows bigint;
  v_late bigint;
begin
  update skipmq.archived_day a set archived_at = skipmq.clock() where a.day = p_day and a.rows = p_rows;
  if found then
    return true;
  end if;
  delete from skipmq.archived_day a where a.day = p_day and not a.dropped;
  if skipmq.clock() < v_until or pg_snapshot_xmin(pg_current_snapshot())::text::bigint < p_to then
    return false;
  end if;
  select count(*) filter (where h.xid < p_to), count(*) filter (where h.xid >= p_to)
  into v_rows, v_late
  from skipmq.history h
  where h.settled_at >= v_from and h.settled_at < v_until;
  if v_rows <> p_rows or v_late > 0 then
    return false;
  end if;
  insert into skipmq.archived_day as a (day, rows, to_xid, archived_at)
  values (p_day, p_rows, p_to, skipmq.clock())
  on conflict (day) do update set rows = excluded.rows, to_xid = excluded.to_xid, archived_at = excluded.archived_at;
  return true;
end $$;
-- Does: adds records to the audit log, in their order; gives their number.
-- Called by: nodes, for what they noted within a second.
-- Locks, in order: none.
-- Raises: nothing that a client can cause: texts without a bound are cut.
-- Relies on index: access_key_pkey.
--
-- p_records is an array of objects with the names of the columns. The age of each is in seconds: the clock is the
-- database's. A claimed access key that there is gives the record its account, whose business it is.
create function skipmq.record_audit(p_records jsonb) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_number integer;
begin
  insert into skipmq.audit_record (
    recorded_at, account, access_key, claimed, user_arn, action, queue, client, door, request_id, outcome, parameters)
  select
    v_now - make_interval(secs => r.age),
    coalesce(r.account, (select k.account from skipmq.access_key k where k.key_id = r.access_key)),
    r.access_key, r.claimed, left(r.user_arn, 256), left(r.action, 80), left(r.queue, 256), left(r.client, 80), r.door,
    left(r.request_id, 80), left(r.outcome, 80), r.parameters
  from rows from (jsonb_to_recordset(p_records) as (
    age float8, account text, access_key text, claimed boolean, user_arn text, action text, queue text, client text,
    door text, request_id text, outcome text, parameters jsonb)) with ordinality
    as r (
      age, account, access_key, claimed, user_arn, action, queue, client, door, request_id, outcome, parameters, place)
  order by r.place;
  get diagnostics v_number = row_count;
  return v_number;
end $$;
-- Does: gives queues without a dead-letter queue that deliver the same messages again and again: in the last
--   p_minutes minutes more of their deliveries ended without a delete than with one, and at least p_least did. The
--   worst first, up to p_limit.
-- Called by: the ListDeadLetterQueues action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_count_pkey, queue_minute_pkey, and those of count_in_flight.
--
-- Deliveries that are in flight have not ended. Only queues that ever received so much more than they deleted are
-- looked at, and in flight is counted only for the worst: what waits costs nothing however much it is. Another
-- queue's dead-letter queue is left out: people look into those without deleting.
create function skipmq.redelivering_queues(
  p_account text, p_region text, p_search text default '', p_limit integer default 20, p_minutes integer default 360,
  p_least integer default 10
) returns table (name text, queue_id integer, policy text, received bigint, deleted bigint, messages bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_from timestamptz := date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes);
begin
  return query
  with candidate as materialized (
    select q.name, q.queue_id, q.policy, c.messages, m.received, m.deleted
    from skipmq.queue q
    join skipmq.queue_count c on c.queue_id = q.queue_id
    cross join lateral (
      select sum(m.received)::bigint as received, sum(m.deleted)::bigint as deleted
      from skipmq.queue_minute m
      where m.queue_id = q.queue_id and m.minute > v_from
    ) m
    where q.account = p_account and q.region = p_region and q.dead_letter_name is null
      and (p_search = '' or strpos(lower(q.name), lower(p_search)) > 0)
      and c.received - c.deleted >= p_least
      and m.received - m.deleted >= greatest(p_least, m.deleted + 1)
      and not exists (
        select from skipmq.queue s
        where s.dead_letter_account = p_account and s.region = p_region and s.dead_letter_name = q.name)
    order by m.received - m.deleted desc, q.name
    limit p_limit
  )
  select c.name, c.queue_id, c.policy, c.received, c.deleted, greatest(c.messages, 0)
  from candidate c
  where c.received - c.deleted - skipmq.count_in_flight(c.queue_id, 10000) >= greatest(p_least, c.deleted + 1)
  order by c.received - c.deleted desc, c.name;
end $$;
-- Does: gives why a redrive without a destination has moved nothing although messages wait: they came from no queue, or
--   from one that is gone; null where neither is so. It reads 1,000 of them.
-- Called by: advance_move_tasks.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible; for FIFO message_group_order.
create function skipmq.redrive_failure(p_source integer, p_source_arn text) returns text
language sql volatile
as $$
  select case
    when bool_or(m.dead_letter_source is null) then 'CouldNotDetermineMessageSource'
    when bool_or(m.dead_letter_source <> p_source_arn) then 'AWS.SimpleQueueService.NonExistentQueue' end
  from (
    (select m.dead_letter_source
    from skipmq.message m
    where m.queue_id = p_source and m.shard in (0, 1, 2) and m.group_no is null
      and m.visible_at > '-infinity' and m.visible_at <= skipmq.clock()
    limit 1000)
    union all
    (select m.dead_letter_source
    from skipmq.message m
    where m.queue_id = p_source and m.group_no is not null and m.visible_at <= skipmq.clock()
    limit 1000)
  ) m
$$;
-- Does: replaces the encrypted secret of an access key by the same one under another master key; tells whether
--   it still was as the caller had read it.
-- Called by: the command line, as the owner.
-- Locks, in order: the access key, the row of the cluster.
-- Raises: nothing.
-- Relies on index: access_key_pkey.
--
-- Not for nodes.
create function skipmq.reencrypt_access_key(p_key_id text, p_old bytea, p_secret bytea, p_master_key_id text)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.access_key k set secret = p_secret, master_key_id = p_master_key_id
  where k.key_id = p_key_id and k.secret = p_old;
  if not found then
    return false;
  end if;
  perform skipmq.announce_access_keys();
  return true;
end $$;
-- Does: sets again when groups of a FIFO queue, which the caller has locked, can give their first message,
--   and removes the rows of those that have none.
-- Called by: clear_group, delete_fifo_messages, change_fifo_visibility, return_fifo_messages, expire_fifo,
--   move_fifo_batch, move_messages, receive_fifo_attempt, delete_picked_messages, advance_message_task, erase_messages.
-- Locks, in order: advisory locks of empty groups, only if free: a sender that is about to commit keeps
--   the row. In a transaction with one snapshot for all statements the row stays too: what was sent since
--   cannot be seen there.
-- Raises: nothing.
-- Relies on index: queue_id, message_group_pkey, message_group_order.
create function skipmq.refresh_groups(p_queue_id integer, p_groups bigint[]) returns void
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
  v_empty bigint[];
  v_free bigint[];
begin
  -- Purged or deleted a moment ago: then it does not matter.
  v_delay := coalesce((
    select make_interval(secs => q.delay_seconds) from skipmq.queue q where q.queue_id = p_queue_id), '0');
  with head as materialized (
    select g.ctid as tid, g.group_no, f.sequence_number, f.available_at
    from unnest(p_groups) u (group_no)
    cross join lateral (
      select g.ctid, g.group_no, g.first_number
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.group_no = u.group_no
    ) g
    left join lateral (
      select m.sequence_number,
        case when m.receive_count = m.receive_base then m.visible_at + v_delay else m.visible_at end as available_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number >= g.first_number
      order by m.sequence_number
      limit 1
    ) f on true
  ), refreshed as (
    update skipmq.message_group g set available_at = h.available_at, first_number = h.sequence_number
    from head h
    where g.ctid = h.tid and h.sequence_number is not null
  )
  select array_agg(h.group_no) into v_empty from head h where h.sequence_number is null;

  if v_empty is null then
    return;
  end if;
  select array_agg(e.group_no) into v_free
  from unnest(v_empty) e (group_no)
  where current_setting('transaction_isolation') = 'read committed' and pg_try_advisory_xact_lock(e.group_no);
  -- A statement of its own sees what was committed before the lock was free.
  delete from skipmq.message_group g
  using unnest(v_free) f (group_no)
  where g.queue_id = p_queue_id and g.group_no = f.group_no
    and (
      select m.id
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no = f.group_no
      order by m.sequence_number
      limit 1) is null;
  -- A sender holds the lock of what is left: read it again when that is done.
  update skipmq.message_group g set available_at = v_now + interval '10 milliseconds'
  from unnest(v_empty) e (group_no)
  where g.queue_id = p_queue_id and g.group_no = e.group_no;
end $$;
-- Does: sets a queue's policy if it still is p_old, and returns whether it was: whoever changes a part of
--   the policy reads it, writes it so, and starts again on false; then no concurrent change is lost.
-- Called by: the AddPermission and RemovePermission actions; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when no queue has this generation.
-- Relies on index: queue_id.
create function skipmq.replace_policy(p_queue_id integer, p_old text, p_new text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.queue q set policy = p_new, modified_at = skipmq.clock()
  where q.queue_id = p_queue_id and q.policy = p_old;
  if found then
    return true;
  end if;
  if not exists (select from skipmq.queue q where q.queue_id = p_queue_id) then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
  return false;
end $$;
-- Does: gives where a replay sends to (null: nothing was staged), how many messages it has still to send, their
--   bytes and groups, and how many it has sent.
-- Called by: `skipmq analytics replay`, as a node; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: replay_message_pkey.
create function skipmq.replay_state(
  p_replay text, out target text, out to_send bigint, out bytes bigint, out groups bigint, out sent bigint
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    min(r.target), count(*) filter (where r.sent_at is null),
    coalesce(sum(octet_length(r.body) + octet_length(r.attributes)), 0)::bigint,
    count(distinct r.group_id) filter (where r.sent_at is null), count(*) filter (where r.sent_at is not null)
  from skipmq.replay_message r
  where r.replay = p_replay;
$$;
-- Does: says what the commits of this server wait for: synchronous_standby_names, how many standbys must
--   acknowledge, how many are listed as candidates, and how many of those stream now (null: the owner of the
--   schema is not in pg_monitor and cannot see it).
-- Called by: nodes, for readiness, doctor and the ReplicationMode of queues.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Source: PostgreSQL manual, 20.6.2 synchronous_standby_names; 28.2.4 pg_stat_replication.
create function skipmq.replication(
  out names text, out required integer, out listed integer, out connected integer
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_candidates text[];
begin
  names := btrim(current_setting('synchronous_standby_names'));
  -- The forms: ANY n (a, b), FIRST n (a, b), n (a, b), and a, b for FIRST 1 (a, b).
  required := case when names = '' then 0 else
    coalesce((regexp_match(names, '^(?:any\s+|first\s+)?(\d+)\s*\(', 'i'))[1]::integer, 1) end;
  v_candidates := regexp_split_to_array(coalesce((regexp_match(names, '\((.*)\)$'))[1], names), '\s*,\s*');
  if pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
    connected := (
      select count(*) from pg_stat_replication r where r.sync_state <> 'async' and r.state = 'streaming');
  end if;
  listed := case
    when names = '' then 0
    when v_candidates && array['*', '"*"'] then greatest(required, connected)
    else cardinality(v_candidates)
  end;
end $$;
-- Does: makes new messages of the given rows of a standard queue, which the caller has locked, each in the
--   standard queue that stands in its place: with another id, sent now, never received. The old ones leave rows of
--   history, as redriven. Gives their number.
-- Called by: move_batch, move_messages.
-- Locks, in order: none but what the caller holds.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), and those of write_history.
--
-- Source: SQS Developer Guide, "Learn how to configure a dead-letter queue redrive": a redriven message is a new
-- message, whose retention period begins again.
create function skipmq.resend(p_source integer, p_tids tid[], p_targets integer[], p_now timestamptz) returns integer
language plpgsql volatile
as $$
declare
  v_count integer;
begin
  perform skipmq.write_history(p_tids, 'redriven', p_now);
  with moved as (
    update skipmq.message m set
      id = nextval('skipmq.message_id_seq'),
      message_id = gen_random_uuid(),
      queue_id = t.target,
      shard = 0,
      visible_at = p_now,
      sent_at = p_now,
      enqueued_at = p_now,
      receive_count = 0,
      receive_base = 0,
      first_received_at = null,
      dead_letter_source = null
    from unnest(p_tids, p_targets) t (tid, target)
    where m.ctid = t.tid
    returning m.queue_id
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event)
    select p_now, c.queue_id, sum(c.change), c.event
    from moved m
    cross join lateral (values (m.queue_id, 1, 'moved-in'), (p_source, -1, 'redriven')) c (queue_id, change, event)
    group by c.queue_id, c.event
  )
  select count(*) into v_count from moved;
  return v_count;
end $$;
-- Does: what return_messages does, for messages of a FIFO queue: their groups can be received from again at once.
-- Called by: the ReceiveMessage action; SQL users.
-- Locks, in order: group rows by number, message rows by id.
-- Raises: nothing.
-- Relies on index: those of lock_groups, return_messages and refresh_groups.
create function skipmq.return_fifo_messages(
  p_queue_id integer, p_ids bigint[], p_receive_counts integer[], p_commit text default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_groups bigint[] := skipmq.lock_groups(p_queue_id, p_ids);
  v_count integer := skipmq.return_messages(p_queue_id, p_ids, p_receive_counts, p_commit);
begin
  perform skipmq.refresh_groups(p_queue_id, v_groups);
  return v_count;
end $$;
-- Does: takes back what was received and reached nobody: makes messages of a standard queue visible at once and
--   does not count the receive. Passes over those that are not at that receive any more; gives the number of the others.
-- Called by: the ReceiveMessage action, when its client has hung up before the answer was written; return_fifo_messages;
--   SQL users.
-- Locks, in order: message rows by id.
-- Raises: nothing.
-- Relies on index: message_pkey, queue_id.
--
-- The fencing token stays: the receipt that nobody has must not fit the next receive.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.return_messages(
  p_queue_id integer, p_ids bigint[], p_receive_counts integer[], p_commit text default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_count integer;
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  with returned as (
    update skipmq.message m set
      -- As refresh_groups reads it: a FIFO message that was never received has its queue's delay ahead of it.
      visible_at = v_now - case when m.group_no is null then interval '0' else (
        select make_interval(secs => q.delay_seconds) from skipmq.queue q where q.queue_id = p_queue_id) end,
      receive_base = m.receive_base + 1,
      first_received_at = case when m.receive_count > m.receive_base + 1 then m.first_received_at end
    from (
      select u.id, u.receive_count from unnest(p_ids, p_receive_counts) u (id, receive_count) order by u.id
    ) r
    where m.id = r.id and m.receive_count = r.receive_count and m.queue_id = p_queue_id
    returning m.id
  )
  select count(*) into v_count from returned;
  return v_count;
end $$;
-- Does: deletes an access key, its secret, and the temporary credentials that stand for it.
-- Called by: the command line, as the owner.
-- Locks, in order: the access key and those that stand for it, the row of the cluster.
-- Raises: SQ010 when there is no such key.
-- Relies on index: access_key_pkey, access_key_parent.
--
-- Not for nodes.
create function skipmq.revoke_access_key(p_key_id text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from skipmq.access_key k where k.key_id = p_key_id;
  if not found then
    raise exception 'there is no access key %', p_key_id using errcode = 'SQ010';
  end if;
  perform skipmq.announce_access_keys();
end $$;
-- Does: takes back from a role what grant_queues gave it: the sends of p_send and the receives of p_receive, by the same
--   names and patterns; with neither of them all of every account and region. With the last grant of this database it
--   takes back the membership in skipmq_application.
-- Called by: `skipmq revoke`, as the owner.
-- Locks, in order: the table of grants, in which others may read meanwhile.
-- Raises: SQ010 when there is no such role, or no such grant of it: then all stay.
-- Relies on index: queue_grant_pkey.
--
-- Effective at the next statement of each session. Not for nodes.
create function skipmq.revoke_queues(
  p_role text, p_send text[] default null, p_receive text[] default null,
  p_account text default '000000000000', p_region text default 'us-east-1'
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_role oid := (select r.oid from pg_roles r where r.rolname = p_role);
  v_missing text;
begin
  if v_role is null then
    raise exception 'there is no role %: `skipmq grants` lists those with grants', p_role using errcode = 'SQ010';
  end if;
  lock table skipmq.queue_grant in share row exclusive mode;
  if p_send is null and p_receive is null then
    delete from skipmq.queue_grant g where g.role = v_role;
    if not found then
      raise exception 'role % has no grants: `skipmq grants` lists those there are', p_role using errcode = 'SQ010';
    end if;
  else
    p_send := coalesce(p_send, '{}');
    p_receive := coalesce(p_receive, '{}');
    select r.text into v_missing
    from (
      select unnest(p_send), 'send to'
      union all
      select unnest(p_receive), 'receive from'
    ) q (queue, verb)
    cross join lateral (select q.verb || ' ' || q.queue) r (text)
    where not exists (
      select from skipmq.queue_grant g
      where g.account = p_account and g.region = p_region and g.queue = q.queue and g.role = v_role
        and case q.verb when 'send to' then g.may_send else g.may_receive end)
    limit 1;
    if found then
      raise exception 'role % has no grant to %: `skipmq grants` lists those there are', p_role, v_missing
        using errcode = 'SQ010';
    end if;
    delete from skipmq.queue_grant g
    where g.account = p_account and g.region = p_region and g.role = v_role
      and (not g.may_send or g.queue = any (p_send)) and (not g.may_receive or g.queue = any (p_receive));
    update skipmq.queue_grant g set
      may_send = g.may_send and g.queue <> all (p_send),
      may_receive = g.may_receive and g.queue <> all (p_receive)
    where g.account = p_account and g.region = p_region and g.role = v_role and g.queue = any (p_send || p_receive);
  end if;
  if not exists (select from skipmq.queue_grant g where g.role = v_role)
    and exists (
      select from pg_auth_members m where m.roleid = to_regrole('skipmq_application') and m.member = v_role)
  then
    begin
      execute format('revoke skipmq_application from %I', p_role);
    exception
      -- An administrator granted it. Without grants it allows nothing.
      when insufficient_privilege then null;
    end;
  end if;
end $$;
-- Does: makes another key for receipt handles, deletes those that receipt_keys no longer gives, and notifies all nodes.
-- Called by: the command line, as the owner.
-- Locks, in order: receipt keys, the row of the cluster.
-- Raises: nothing.
-- Relies on index: receipt_key_pkey.
--
-- Not for nodes.
create function skipmq.rotate_receipt_key() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from skipmq.receipt_key r
  where not exists (select from skipmq.receipt_keys() k where k.key = r.key);
  -- The newest, even where the clock was set back.
  insert into skipmq.receipt_key (made_at, key)
  select
    greatest(skipmq.clock(), max(r.made_at) + interval '1 microsecond'),
    decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
  from skipmq.receipt_key r;
  perform skipmq.announce_access_keys();
end $$;
-- Does: gives what was settled of a generation since p_since, from all of the history's blocks since then or, where those
--   are more, from p_runs runs of eight that lie evenly among them; part says which part of them that is.
-- Called by: time_in_queue.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none (ranges of ctid).
--
-- The history has no index by queue or time, which each delete would pay for. Its rows lie nearly in the order of time:
-- the first block is found by halving, and it costs at most as much as reading 4 MB a day, however long the history is.
create function skipmq.sample_history(
  p_queue_id integer, p_since timestamptz, p_until timestamptz, p_runs integer default 64
) returns table (settled_at timestamptz, sent_at timestamptz, first_received_at timestamptz, outcome text, part float8)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_from timestamptz := date_trunc('day', p_since, 'UTC');
  v_to timestamptz;
  v_first timestamptz;
  v_blocks bigint;
  v_low bigint;
  v_high bigint;
  v_middle bigint;
  v_runs bigint;
begin
  while v_from <= p_until loop
    v_to := v_from + interval '1 day';
    -- Only the partition of the day is read: the planner leaves out the others by settled_at.
    v_blocks := pg_relation_size(coalesce(
      to_regclass('skipmq.history_' || to_char(v_from at time zone 'UTC', 'YYYYMMDD')), 'skipmq.history_default'))
      / current_setting('block_size')::bigint;
    v_low := 0;
    v_high := v_blocks;
    while v_low < v_high loop
      v_middle := (v_low + v_high) / 2;
      select min(h.settled_at) into v_first
      from skipmq.history h
      where h.settled_at >= v_from and h.settled_at < v_to
        and h.ctid >= format('(%s,0)', v_middle)::tid and h.ctid < format('(%s,0)', v_middle + 1)::tid;
      if v_first < p_since then
        v_low := v_middle + 1;
      else
        v_high := v_middle;
      end if;
    end loop;
    -- Blocks are filled by several writers at once: those just before may have rows of the time, too.
    v_low := greatest(v_low - 8, 0);
    v_runs := (v_blocks - v_low + 7) / 8;
    for v_n in 0 .. least(v_runs, p_runs) - 1 loop
      v_middle := v_low + 8 * case when v_runs > p_runs then v_n * v_runs / p_runs else v_n end;
      return query
      select h.settled_at, h.sent_at, h.first_received_at, h.outcome, least(1, p_runs::float8 / v_runs)
      from skipmq.history h
      where h.settled_at >= greatest(v_from, p_since) and h.settled_at < v_to and h.queue_id = p_queue_id
        and h.ctid >= format('(%s,0)', v_middle)::tid and h.ctid < format('(%s,0)', v_middle + 8)::tid;
    end loop;
    v_from := v_to;
  end loop;
end $$;
-- Does: gives the time from which a standard queue has to be scanned: p_low, or an earlier one where a transaction of
--   p_held has ended. What that wrote may lie from its place in p_held_low on (microseconds since 1970; null: from the
--   beginning).
-- Called by: receive_messages, low_watermark, where transactions that stay open are left out of the proof.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Volatile, so that it has a snapshot of its own: what ended before the call is seen by the scan that follows.
create function skipmq.scan_from(p_low timestamptz, p_held bigint[], p_held_low bigint[]) returns timestamptz
language plpgsql volatile
as $$
begin
  return least(p_low, (
    select min(coalesce('epoch'::timestamptz + h.low * interval '1 microsecond', '-infinity'))
    from unnest(p_held, p_held_low) h (xid, low)
    where pg_visible_in_snapshot(h.xid::text::xid8, pg_current_snapshot())));
end $$;
-- Does: stores one message in the FIFO queue of that name, within the caller's transaction; gives its id,
--   or that of the first sending of the last five minutes under the same deduplication id.
-- Called by: SQL users.
-- Locks, in order: those of check_grant and hold_queue, then of send_fifo_messages.
-- Raises: what check_grant raises; SQ001 when there is no such queue, and what hold_queue and send_fifo_messages
--   raise.
-- Relies on index: queue_pkey, and those of send_fifo_messages.
create function skipmq.send_fifo_message(
  p_queue text,
  p_body text,
  p_group_id text,
  p_deduplication_id text default null,
  p_attributes jsonb default null,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id integer;
  v_id uuid;
begin
  perform skipmq.check_grant('send', p_queue, p_account, p_region);
  v_queue_id := skipmq.hold_queue(p_queue, p_account, p_region);
  select s.message_id into v_id
  from skipmq.send_fifo_messages(
    v_queue_id, array[gen_random_uuid()], array[p_body], array[p_attributes::text], array[p_group_id],
    array[p_deduplication_id], array[null::text], session_user::text) s;
  return v_id;
end $$;
-- Does: stores messages in a FIFO queue and says for each by its place in the arrays the message id and sequence
--   number to answer with: those of the first sending where the deduplication id is known. All or none, unless
--   p_requests says which request each belongs to: then those of a request of which a group is held by another sender
--   are not stored, nor in the result, and nobody waits.
-- Called by: the SendMessage and SendMessageBatch actions, send_fifo_message; SQL users.
-- Locks, in order: those of hold_generation, for SQL users; those of lock_for_sending; deduplication rows by key.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is not FIFO; what check_messages raises.
-- Relies on index: queue_id, deduplication_pkey, message_group_pkey.
--
-- The locks come before the sequence numbers, and are held until the commit: so the messages of a group
-- become visible in the order of their numbers.
-- p_commit sets synchronous_commit for the rest of the transaction; null, for SQL users, leaves it as it is and keeps
-- the queue from being purged or deleted until the transaction ends; their messages are checked here, and get the
-- deduplication ids that content-based deduplication gives them, as the nodes have done with theirs.
create function skipmq.send_fifo_messages(
  p_queue_id integer,
  p_message_ids uuid[],
  p_bodies text[],
  p_attributes text[],
  p_group_ids text[],
  p_deduplication_ids text[],
  p_trace_headers text[],
  p_sender text default null,
  p_commit text default null,
  p_requests integer[] default null
) returns table (place bigint, message_id uuid, sequence_number bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- Not those of sql/planner.sql: it sorts, and joins a batch with itself.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_scope text;
  v_keys uuid[];
  v_fresh bigint[];
  v_numbers bigint[];
  v_places bigint[];
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  else
    perform skipmq.hold_generation(p_queue_id);
  end if;
  select q.deduplication_scope into v_scope from skipmq.queue q where q.queue_id = p_queue_id and q.fifo;
  if not found then
    perform skipmq.check_generation(p_queue_id, true);
  end if;
  if p_commit is null then
    p_deduplication_ids := skipmq.deduplication_ids(p_queue_id, p_deduplication_ids, p_bodies);
    p_attributes := skipmq.check_messages(
      p_queue_id, p_bodies, p_attributes, null, p_group_ids, p_deduplication_ids, p_trace_headers);
  end if;
  v_places := skipmq.lock_for_sending(p_queue_id, p_group_ids, p_requests);
  if v_places = '{}' then
    return;
  elsif v_places is not null then
    p_message_ids := array(select p_message_ids[u.place] from unnest(v_places) u (place));
    p_bodies := array(select p_bodies[u.place] from unnest(v_places) u (place));
    p_attributes := array(select p_attributes[u.place] from unnest(v_places) u (place));
    p_group_ids := array(select p_group_ids[u.place] from unnest(v_places) u (place));
    p_deduplication_ids := array(select p_deduplication_ids[u.place] from unnest(v_places) u (place));
    p_trace_headers := array(select p_trace_headers[u.place] from unnest(v_places) u (place));
  end if;

  -- The clock again: it may have been a long wait.
  v_now := greatest(v_now, skipmq.clock());
  select array_agg(k.key order by k.place) into v_keys
  from (
    select
      encode(substr(sha256(convert_to(
        case when v_scope = 'messageGroup' then u.group_id || E'\n' else '' end || u.deduplication_id, 'UTF8')), 1, 16),
        'hex')::uuid as key,
      u.place
    from unnest(p_group_ids, p_deduplication_ids) with ordinality u (group_id, deduplication_id, place)
  ) k;
  with numbered as materialized (
    select f.place, f.key, nextval('skipmq.sequence_number_seq') as sequence_number
    from (
      select min(u.place) as place, u.key
      from unnest(v_keys) with ordinality u (key, place)
      group by u.key
      order by 1
    ) f
  ), fresh as (
    insert into skipmq.deduplication as d (queue_id, key, expires_at, sequence_number, message_id)
    select p_queue_id, n.key, v_now + interval '5 minutes', n.sequence_number, p_message_ids[n.place]
    from numbered n
    order by n.key
    on conflict on constraint deduplication_pkey do update set
      expires_at = excluded.expires_at,
      sequence_number = excluded.sequence_number,
      message_id = excluded.message_id
    where d.expires_at <= v_now
    returning d.sequence_number
  )
  select array_agg(n.place), array_agg(n.sequence_number) into v_fresh, v_numbers
  from numbered n
  join fresh f on f.sequence_number = n.sequence_number;

  if v_fresh is not null then
    insert into skipmq.message (
      id, visible_at, sent_at, enqueued_at, queue_id, group_no, sequence_number, message_id, group_id,
      deduplication_id, sender, trace_header, attributes, body)
    select
      nextval('skipmq.message_id_seq'), v_now, v_now, v_now, p_queue_id,
      hashtextextended(p_group_ids[u.place], p_queue_id), u.number, p_message_ids[u.place],
      p_group_ids[u.place], p_deduplication_ids[u.place], p_sender, p_trace_headers[u.place],
      p_attributes[u.place], p_bodies[u.place]
    from unnest(v_fresh, v_numbers) u (place, number);
    -- Nobody removes a row while its advisory lock is held, so that a read is enough, unless it is a read of
    -- the past. An insert on conflict would wait for whoever is receiving from the group.
    insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
    select p_queue_id, f.group_no, v_now, f.first_number
    from (
      select hashtextextended(p_group_ids[u.place], p_queue_id) as group_no, min(u.number) as first_number
      from unnest(v_fresh, v_numbers) u (place, number)
      group by 1
    ) f
    where current_setting('transaction_isolation') <> 'read committed' or not exists (
      select from skipmq.message_group g where g.queue_id = p_queue_id and g.group_no = f.group_no)
    order by f.first_number -- Groups that become available together come in the order of arrival.
    on conflict do nothing;
    insert into skipmq.queue_delta (at, queue_id, change, event, bytes)
    select v_now, p_queue_id, cardinality(v_fresh), 'sent', coalesce(sum(octet_length(b.body)), 0)
    from unnest(p_bodies) with ordinality b (body, place) where b.place = any (v_fresh);
  end if;

  if cardinality(v_fresh) = cardinality(v_keys) then
    return query
    select coalesce(v_places[u.place], u.place), p_message_ids[u.place], u.number
    from unnest(v_fresh, v_numbers) u (place, number)
    order by u.place;
    return;
  end if;
  return query
  select coalesce(v_places[u.place], u.place), d.message_id, d.sequence_number
  from unnest(v_keys) with ordinality u (key, place)
  -- A probe each, however few rows the planner believes the queue to have.
  cross join lateral (
    select d.message_id, d.sequence_number
    from skipmq.deduplication d
    where d.queue_id = p_queue_id and d.key = u.key
    limit 1
  ) d
  order by u.place;
end $$;
-- Does: stores one message in the standard queue of that name, within the caller's transaction.
-- Called by: SQL users: `insert into orders …; select skipmq.send_message('orders', …); commit;`.
-- Locks, in order: those of check_grant and hold_queue, then of send_messages.
-- Raises: what check_grant raises; SQ001 when there is no such queue, and what hold_queue and send_messages raise.
-- Relies on index: queue_pkey, queue_id.
create function skipmq.send_message(
  p_queue text,
  p_body text,
  p_attributes jsonb default null,
  p_delay_seconds integer default null,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id integer;
  v_message_id uuid := gen_random_uuid();
begin
  perform skipmq.check_grant('send', p_queue, p_account, p_region);
  v_queue_id := skipmq.hold_queue(p_queue, p_account, p_region);
  perform skipmq.send_messages(
    v_queue_id, array[v_message_id], array[p_body], array[p_attributes::text], array[p_delay_seconds],
    array[null::text], array[null::text], session_user::text);
  return v_message_id;
end $$;
-- Does: stores messages in a standard queue: all of them, or none when it raises.
-- Called by: the SendMessage and SendMessageBatch actions, send_message; SQL users.
-- Locks, in order: those of hold_generation, for SQL users; advisory lock of the first message id; queue row, with the first message that has a group.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is FIFO; what check_messages raises.
-- Relies on index: queue_id, noisy_tenant_pkey, message_visible.
--
-- The arrays run in parallel, one element a message; null stands for nothing but nulls. A null in p_delays is
-- the queue's delay.
-- p_commit sets synchronous_commit for the rest of the transaction; null, for SQL users, leaves it as it is and keeps
-- the queue from being purged or deleted until the transaction ends; their
-- messages are checked here, as the nodes have checked theirs.
-- p_again is for a retry of a send that may have been done within that time: nothing is stored when one of its
-- messages is there. The retry waits for the lock, which the first try holds until its commit has been
-- acknowledged by its standbys: nobody sees its messages before. What was received and deleted since is not
-- known, and stored a second time.
create function skipmq.send_messages(
  p_queue_id integer,
  p_message_ids uuid[],
  p_bodies text[],
  p_attributes text[],
  p_delays integer[],
  p_group_ids text[],
  p_trace_headers text[],
  p_sender text default null,
  p_commit text default null,
  p_again interval default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- Those of sql/planner.sql that it needs: planning each call would cost more than the call.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_locked boolean;
begin
  -- Assignments, where PERFORM would run a statement.
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  else
    perform skipmq.hold_generation(p_queue_id);
    perform skipmq.check_generation(p_queue_id, false);
    p_attributes := skipmq.check_messages(
      p_queue_id, p_bodies, p_attributes, p_delays, p_group_ids, null, p_trace_headers);
  end if;
  v_locked := pg_try_advisory_xact_lock(uuid_hash_extended(p_message_ids[1], 0));
  if p_again is not null and skipmq.is_sent(p_queue_id, p_message_ids, v_now - p_again) then
    -- A row, so that this commit waits for the standbys that the one before may not have waited for.
    insert into skipmq.queue_delta (at, queue_id, change, event) values (v_now, p_queue_id, 0, 'sent');
    return;
  end if;
  with counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event, bytes)
    select v_now, p_queue_id, cardinality(p_message_ids), 'sent', coalesce(sum(octet_length(b)), 0) from unnest(p_bodies) b
  )
  insert into skipmq.message (
    id, visible_at, sent_at, enqueued_at, queue_id, shard, message_id, group_id, sender, trace_header, attributes, body)
  select
    nextval('skipmq.message_id_seq'),
    v_now + make_interval(secs => greatest(coalesce(u.delay, q.delay_seconds), 0)),
    v_now, v_now, p_queue_id,
    case when q.tenants and u.group_id is not null then skipmq.shard_of(p_queue_id, u.group_id, v_now) else 0 end,
    u.message_id, u.group_id, p_sender, u.trace_header, u.attributes, u.body
  from skipmq.queue q
  cross join (
    select
      unnest(p_message_ids) as message_id, unnest(p_bodies) as body, unnest(p_attributes) as attributes,
      unnest(p_delays) as delay, unnest(p_group_ids) as group_id, unnest(p_trace_headers) as trace_header
  ) u
  where q.queue_id = p_queue_id and not q.fifo;
  if not found then
    perform skipmq.check_generation(p_queue_id, false);
  elsif p_group_ids is not null and array_remove(p_group_ids, null) <> '{}' then
    update skipmq.queue q set tenants = true where q.queue_id = p_queue_id and not q.tenants;
  end if;
end $$;
-- Does: sends the next p_limit staged messages of a replay to a queue and marks them as sent, in one transaction;
--   gives their number. Bodies of messages that are sent are removed, their ids stay.
-- Called by: `skipmq analytics replay`, as a node; SQL users.
-- Locks, in order: replay_message rows, then those of hold_generation, and of send_messages or send_fifo_messages.
-- Raises: SQ005 when the queue has another generation, and what send_messages and send_fifo_messages raise.
-- Relies on index: replay_message_unsent, replay_message_pkey, queue_id.
create function skipmq.send_replay(p_replay text, p_queue_id integer, p_limit integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sender text := 'skipmq replay ' || p_replay;
  -- Not null, as a node's: what was sent once is not checked again.
  v_commit text := current_setting('synchronous_commit');
  v_ids uuid[];
  v_bodies text[];
  v_attributes text[];
  v_groups text[];
  v_traces text[];
begin
  select
    array_agg(m.message_id order by m.place), array_agg(m.body order by m.place),
    array_agg(m.attributes order by m.place), array_agg(m.group_id order by m.place),
    array_agg(m.trace_header order by m.place)
  into v_ids, v_bodies, v_attributes, v_groups, v_traces
  from (
    select r.place, r.message_id, r.body, r.attributes, r.group_id, r.trace_header
    from skipmq.replay_message r
    where r.replay = p_replay and r.sent_at is null
    order by r.place
    limit p_limit
    for update
  ) m;
  if v_ids is null then
    return 0;
  end if;
  perform skipmq.hold_generation(p_queue_id);
  if exists (select from skipmq.queue q where q.queue_id = p_queue_id and q.fifo) then
    perform skipmq.send_fifo_messages(
      p_queue_id, v_ids, v_bodies, v_attributes, v_groups, v_ids::text[], v_traces, v_sender, v_commit);
  else
    perform skipmq.send_messages(
      p_queue_id, v_ids, v_bodies, v_attributes, null, v_groups, v_traces, v_sender, v_commit);
  end if;
  update skipmq.replay_message r
  set sent_at = skipmq.clock(), body = null, attributes = null, group_id = null, trace_header = null
  where r.replay = p_replay and r.message_id = any (v_ids);
  return cardinality(v_ids);
end $$;
-- Does: changes the attributes named in p_attributes (SQS names, text values); others stay.
-- Called by: create_queue, the SetQueueAttributes action; SQL users.
-- Locks, in order: queue row of the dead-letter queue (shared), queue row, group rows.
-- Raises: SQ005 when no queue has this generation, SQ006 when there is no attribute of a name, SQ008 when
--   a redrive policy names a queue that is not there or does not allow it, 23514 when a value is out of
--   its range.
-- Relies on index: queue_id, message_group_available.
create function skipmq.set_queue_attributes(p_queue_id integer, p_attributes jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue skipmq.queue;
  v_unknown text;
  v_redrive jsonb;
  v_target text[];
begin
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id;
  select a.key into v_unknown
  from jsonb_object_keys(p_attributes) a (key)
  where a.key not in (
    'VisibilityTimeout', 'DelaySeconds', 'MaximumMessageSize', 'MessageRetentionPeriod',
    'ReceiveMessageWaitTimeSeconds', 'Policy', 'RedrivePolicy', 'RedriveAllowPolicy', 'KmsMasterKeyId', 'KmsDataKeyReusePeriodSeconds',
    'SqsManagedSseEnabled', 'HistoryMode', 'ReplicationMode')
    and not (v_queue.fifo and a.key in (
      'FifoQueue', 'ContentBasedDeduplication', 'DeduplicationScope', 'FifoThroughputLimit'))
  limit 1;
  if v_unknown is not null then
    raise exception 'Unknown Attribute %.', v_unknown using errcode = 'SQ006';
  elsif p_attributes ->> 'FifoQueue' <> 'true' then
    raise exception 'Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.'
      using errcode = '23514';
  elsif coalesce(p_attributes ->> 'FifoThroughputLimit', v_queue.fifo_throughput_limit) = 'perMessageGroupId'
    and coalesce(p_attributes ->> 'DeduplicationScope', v_queue.deduplication_scope) <> 'messageGroup'
  then
    raise exception 'The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup.'
      using errcode = '23514';
  end if;
  if p_attributes ->> 'RedrivePolicy' <> '' then
    v_redrive := p_attributes ->> 'RedrivePolicy';
    v_target := string_to_array(v_redrive ->> 'deadLetterTargetArn', ':');
    perform skipmq.check_redrive(p_queue_id, p_attributes ->> 'RedrivePolicy', v_target);
  end if;
  update skipmq.queue q set
    visibility_timeout = coalesce((p_attributes ->> 'VisibilityTimeout')::integer, q.visibility_timeout),
    delay_seconds = coalesce((p_attributes ->> 'DelaySeconds')::integer, q.delay_seconds),
    maximum_message_size = coalesce((p_attributes ->> 'MaximumMessageSize')::integer, q.maximum_message_size),
    message_retention_period =
      coalesce((p_attributes ->> 'MessageRetentionPeriod')::integer, q.message_retention_period),
    receive_message_wait_time_seconds =
      coalesce((p_attributes ->> 'ReceiveMessageWaitTimeSeconds')::integer, q.receive_message_wait_time_seconds),
    policy = coalesce(p_attributes ->> 'Policy', q.policy),
    redrive_policy = coalesce(p_attributes ->> 'RedrivePolicy', q.redrive_policy),
    redrive_allow_policy = coalesce(p_attributes ->> 'RedriveAllowPolicy', q.redrive_allow_policy),
    dead_letter_account =
      case when p_attributes ->> 'RedrivePolicy' is not null then v_target[5] else q.dead_letter_account end,
    dead_letter_name =
      case when p_attributes ->> 'RedrivePolicy' is not null then v_target[6] else q.dead_letter_name end,
    max_receive_count =
      case when p_attributes ->> 'RedrivePolicy' is not null then (v_redrive ->> 'maxReceiveCount')::integer
      else q.max_receive_count end,
    kms_master_key_id = coalesce(p_attributes ->> 'KmsMasterKeyId', q.kms_master_key_id),
    kms_data_key_reuse_period_seconds =
      coalesce((p_attributes ->> 'KmsDataKeyReusePeriodSeconds')::integer, q.kms_data_key_reuse_period_seconds),
    sqs_managed_sse_enabled =
      coalesce((p_attributes ->> 'SqsManagedSseEnabled')::boolean, q.sqs_managed_sse_enabled),
    history_mode = coalesce(p_attributes ->> 'HistoryMode', q.history_mode),
    replication_mode = coalesce(p_attributes ->> 'ReplicationMode', q.replication_mode),
    content_based_deduplication = coalesce(
      (p_attributes ->> 'ContentBasedDeduplication')::boolean, q.content_based_deduplication),
    deduplication_scope = coalesce(p_attributes ->> 'DeduplicationScope', q.deduplication_scope),
    fifo_throughput_limit = coalesce(p_attributes ->> 'FifoThroughputLimit', q.fifo_throughput_limit),
    modified_at = skipmq.clock()
  where q.queue_id = p_queue_id;
  if not found then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
  if v_queue.fifo and p_attributes ? 'DelaySeconds' then
    -- It applies to what waits as well: let the next receive read all groups again.
    update skipmq.message_group g set available_at = skipmq.clock()
    where g.queue_id = p_queue_id and g.available_at > skipmq.clock();
  end if;
end $$;
-- Does: deletes the given rows of messages, which the caller has locked, and leaves a row of history for each;
--   gives their number.
-- Called by: delete_fifo_messages, delete_picked_messages, advance_message_task, erase_messages, expire_visible,
--   clear_group, clear_retired, expire_fifo.
-- Locks, in order: none but what the caller holds.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), and those of write_history.
create function skipmq.settle(p_tids tid[], p_outcome text) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_count integer;
begin
  perform skipmq.write_history(p_tids, p_outcome, v_now);
  with gone as (
    delete from skipmq.message m where m.ctid = any (p_tids) returning m.queue_id
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event)
    select v_now, g.queue_id, -count(*), p_outcome from gone g group by g.queue_id
  )
  select count(*) into v_count from gone;
  return v_count;
end $$;
-- Does: gives the shard of a standard queue in which a tenant's messages wait: 1 while it is noisy, otherwise 0.
-- Called by: send_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: noisy_tenant_pkey.
create function skipmq.shard_of(p_queue_id integer, p_group_id text, p_now timestamptz) returns smallint
language plpgsql stable
as $$
begin
  return (
    select count(*)
    from skipmq.noisy_tenant t
    where t.queue_id = p_queue_id and t.group_id = p_group_id and t.until > p_now);
end $$;
-- Does: gives a client's value as error texts repeat it: a long one without its end.
-- Called by: check_message, check_attributes, receive_fifo_attempt.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.shown(p_text text) returns text
language sql immutable
as $$
  select case when length(p_text) <= 200 then p_text else left(p_text, 197) || '...' end
$$;
-- Does: stores messages that a replay is to send; gives how many are new. Messages that the replay has already,
--   and messages that it sent itself, are skipped.
-- Called by: `skipmq analytics replay`, as a node; SQL users.
-- Locks, in order: replay_message rows.
-- Raises: nothing.
-- Relies on index: replay_message_pkey.
create function skipmq.stage_replay(
  p_replay text,
  p_target text,
  p_places bigint[],
  p_message_ids uuid[],
  p_source_ids uuid[],
  p_group_ids text[],
  p_trace_headers text[],
  p_attributes text[],
  p_bodies text[]
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count bigint;
begin
  insert into skipmq.replay_message (
    replay, target, place, message_id, source_id, group_id, trace_header, attributes, body)
  select
    p_replay, p_target, u.place, u.message_id, u.source_id, u.group_id, u.trace_header, u.attributes, u.body
  from unnest(p_places, p_message_ids, p_source_ids, p_group_ids, p_trace_headers, p_attributes, p_bodies)
    u (place, message_id, source_id, group_id, trace_header, attributes, body)
  where not exists (
    select from skipmq.replay_message r where r.replay = p_replay and r.message_id = u.source_id)
  on conflict do nothing;
  get diagnostics v_count = row_count;
  return v_count;
end $$;
-- Does: begins to move, copy or delete (p_kind) the messages of a queue that are visible now (FIFO: not in flight) and
--   match a filter: a text in the body, an attribute of a name, its value; without any: all. Gives the number of the task.
-- Called by: the StartMessageTask action; SQL users.
-- Locks, in order: none but the task's own row.
-- Raises: SQ010 when a queue is not there, SQ008 when the parameters do not fit together or the source has an active task.
-- Relies on index: queue_pkey, and those of add_move_task.
create function skipmq.start_message_task(
  p_source_arn text, p_kind text, p_destination_arn text default null, p_messages_per_second integer default null,
  p_body_contains text default null, p_attribute_name text default null, p_attribute_value text default null
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_source integer := skipmq.queue_of_arn(p_source_arn);
begin
  if v_source is null then
    raise exception 'The source queue does not exist.' using errcode = 'SQ010';
  elsif p_kind not in ('move', 'copy', 'delete') then
    raise exception 'A task moves, copies or deletes.' using errcode = 'SQ008';
  elsif (p_kind = 'delete') <> (p_destination_arn is null) then
    raise exception 'A task that moves or copies has a destination queue, and no other has one.' using errcode = 'SQ008';
  elsif p_destination_arn is not null and skipmq.queue_of_arn(p_destination_arn) is null then
    raise exception 'The destination queue does not exist.' using errcode = 'SQ010';
  elsif p_destination_arn = p_source_arn then
    raise exception 'The destination of a task must not be its source.' using errcode = 'SQ008';
  elsif (p_destination_arn like '%.fifo') <> (p_source_arn like '%.fifo') then
    raise exception 'The destination of a task must be of the same type as its source.' using errcode = 'SQ008';
  elsif p_attribute_value is not null and p_attribute_name is null then
    raise exception 'An attribute has a name.' using errcode = 'SQ008';
  elsif greatest(length(p_body_contains), length(p_attribute_name), length(p_attribute_value)) > 256 then
    raise exception 'A filter of a task has at most 256 characters.' using errcode = 'SQ008';
  end if;
  return skipmq.add_move_task(
    v_source, p_source_arn, p_destination_arn, p_messages_per_second, p_kind, p_body_contains, p_attribute_name,
    p_attribute_value);
end $$;
-- Does: begins to move the messages of a dead-letter queue; gives the number of the task. Without a destination only
--   those go back that came from one of p_origins (ARNs), if that is not null: what the caller may send to.
-- Called by: the StartMessageMoveTask action; SQL users.
-- Locks, in order: none but the task's own row.
-- Raises: SQ010 when a queue is not there, SQ008 when the source is nobody's dead-letter queue or has an
--   active task.
-- Relies on index: queue_dead_letter, and those of add_move_task.
create function skipmq.start_move_task(
  p_source_arn text, p_destination_arn text default null, p_messages_per_second integer default null,
  p_origins text[] default null
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_source integer := skipmq.queue_of_arn(p_source_arn);
  v_task uuid;
begin
  if v_source is null then
    raise exception 'The resource that you specified for the SourceArn parameter doesn''t exist.'
      using errcode = 'SQ010';
  elsif p_destination_arn is not null and skipmq.queue_of_arn(p_destination_arn) is null then
    raise exception 'The resource that you specified for the DestinationArn parameter doesn''t exist.'
      using errcode = 'SQ010';
  elsif p_destination_arn = p_source_arn then
    raise exception 'The destination of a message move task must not be its source.' using errcode = 'SQ008';
  elsif (p_destination_arn like '%.fifo') <> (p_source_arn like '%.fifo') then
    raise exception 'The destination of a message move task must be of the same type as its source.'
      using errcode = 'SQ008';
  end if;
  if not exists (
    select from skipmq.queue q
    where q.dead_letter_account = split_part(p_source_arn, ':', 5)
      and q.region = split_part(p_source_arn, ':', 4)
      and q.dead_letter_name = split_part(p_source_arn, ':', 6))
  then
    raise exception 'Source queue must be configured as a Dead Letter Queue.' using errcode = 'SQ008';
  end if;
  v_task := skipmq.add_move_task(v_source, p_source_arn, p_destination_arn, p_messages_per_second);
  update skipmq.move_task t set origins = p_origins where t.task_id = v_task and p_origins is not null;
  return v_task;
end $$;
-- Does: names the transaction that has locked a table of messages against writes, or waits for that and holds up all
--   that come later: of several the oldest. Tables that only upkeep or operators write to do not count. Gives since when it has been open, where the owner of the schema may see
--   that, and its session. Null when there is none.
-- Called by: nodes, when a statement waits for a lock in vain.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: pg_class_oid_index.
create function skipmq.table_lock(out began timestamptz, out session text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.xact_start, format('%s %s %s on %s.%s',
    case
      when a.pid is null then 'a prepared transaction'
      else format('%s, process %s, user %s', coalesce(nullif(a.application_name, ''), 'a session'), a.pid, a.usename)
    end,
    case when l.granted then 'holds' else 'waits for' end, l.mode, c.relnamespace::regnamespace, c.relname)
  from pg_locks l
  join pg_class c on c.oid = l.relation
  left join pg_stat_activity a on a.pid = l.pid
  where l.locktype = 'relation'
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    and c.relnamespace = 'skipmq'::regnamespace
    and c.relname in (
      'message', 'message_group', 'deduplication', 'receive_attempt', 'queue', 'queue_delta', 'history', 'history_default',
      'history_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD'))
  order by a.xact_start
  limit 1
$$;
-- Does: gives a queue the tags of p_tags (text by text); one of the same key is replaced, others stay.
-- Called by: the TagQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when no queue has this generation, SQ008 when the queue would have more than 50 tags, 23514 when a key
--   or a value is too long.
-- Relies on index: queue_id.
create function skipmq.tag_queue(p_queue_id integer, p_tags jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_most constant integer := 50;
  v_tags jsonb;
  v_name text;
begin
  select q.tags || p_tags, q.name into v_tags, v_name
  from skipmq.queue q
  where q.queue_id = p_queue_id
  for no key update;
  if not found then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
  if (select count(*) from jsonb_object_keys(v_tags)) > v_most then
    raise exception 'Too many tags added for queue %.', v_name using errcode = 'SQ008';
  end if;
  update skipmq.queue q set tags = v_tags where q.queue_id = p_queue_id;
end $$;
-- Does: gives the 50th, 95th and 99th percentiles, in microseconds, of how long the messages of a generation that were
--   settled in the last p_minutes minutes were in it, by steps of p_step minutes, and of all (step is null): from send to
--   delete of those that were deleted, from send to first receive of those that were received. part is less than one
--   where the numbers are of a sample.
-- Called by: the console.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none (sample_history), queue_id, queue_dead_letter.
--
-- The measures are those of the reports (app/skipmq/analytics/reports/latency.py): the same columns of the
-- history, and a percentile that is one of the values. Dead letters were received in another queue: of
-- a dead-letter queue only the time to delete is given.
create function skipmq.time_in_queue(p_queue_id integer, p_minutes integer, p_step integer default 1)
returns table (
  step timestamptz, settled bigint, deleted bigint, send_to_receive bigint[], send_to_delete bigint[], part float8
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  with period as materialized (
    select
      date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes - 1) as since, skipmq.clock() as until,
      exists (
        select from skipmq.queue q
        join skipmq.queue s on s.dead_letter_account = q.account and s.region = q.region
          and s.dead_letter_name = q.name
        where q.queue_id = p_queue_id
      ) as dead_letters
  ), measured as (
    select
      date_bin(make_interval(mins => p_step), h.settled_at, 'epoch') as step, h.outcome, h.part,
      case when not p.dead_letters then date_part('epoch', h.first_received_at - h.sent_at) * 1000000 end as receive,
      case when h.outcome = 'deleted' then date_part('epoch', h.settled_at - h.sent_at) * 1000000 end as delete
    from period p
    cross join lateral skipmq.sample_history(p_queue_id, p.since, p.until) h
  )
  select
    m.step, count(*), count(*) filter (where m.outcome = 'deleted'),
    percentile_disc(array[0.5, 0.95, 0.99]) within group (order by m.receive::bigint),
    percentile_disc(array[0.5, 0.95, 0.99]) within group (order by m.delete::bigint),
    coalesce(min(m.part), 1)
  from measured m
  group by grouping sets ((m.step), ())
  order by m.step nulls last;
$$;
-- Does: gives the timeline of this server, which a failover makes another: on a primary the one that it writes,
--   on a standby the one that it follows; null on a standby that is connected to nobody, where nobody can know.
-- Called by: the view skipmq_views.server; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Where the owner of the schema is not in pg_monitor a standby gives what its control file says, which is up to
-- a checkpoint behind. Source: PostgreSQL manual, 28.2.6 pg_stat_wal_receiver; 9.27.11 pg_control_recovery.
create function skipmq.timeline() returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not pg_is_in_recovery() then
    return ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
  end if;
  if pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
    return (select r.received_tli from pg_stat_wal_receiver r);
  end if;
  return (select r.min_recovery_end_timeline from pg_control_recovery() r);
end $$;
-- Does: takes the tags of these keys from a queue; a key that it does not have is ignored.
-- Called by: the UntagQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when no queue has this generation.
-- Relies on index: queue_id.
create function skipmq.untag_queue(p_queue_id integer, p_keys text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.queue q set tags = q.tags - p_keys where q.queue_id = p_queue_id;
  if not found then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
end $$;
-- Does: lets all nodes know, for as long as the caller's session lasts, that the disk was found full, and tries
--   whether it still is.
-- Called by: the node that met the error, once a second, until it gets through.
-- Locks, in order: the advisory lock that database_state looks for, shared, kept until the session ends.
-- Raises: 53100 while the disk is full.
-- Relies on index: none.
--
-- It adds 256 kB to a table, and goes back: the pages stay until vacuum cuts them off, so that no try finds room that
-- an earlier one has left.
create function skipmq.watch_disk() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_advisory_lock_shared(hashtext('skipmq'), hashtext('disk_full'));
  begin
    insert into skipmq.disk_probe (filler) select repeat('x', 6000) from generate_series(1, 32);
    raise exception using errcode = 'SQ099';
  exception
    when sqlstate 'SQ099' then
      null; -- There was room.
  end;
end $$;
-- Does: leaves a row of history for each of the given rows of messages, which the caller has locked and is about
--   to settle, as the history mode of their queue says.
-- Called by: settle, move_to_dead_letter_queue, append_fifo, resend; delete_messages has it in its own statement.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), generation_pkey, queue_id.
create function skipmq.write_history(p_tids tid[], p_outcome text, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_xid bigint := pg_current_xact_id()::text::bigint;
begin
  insert into skipmq.history (
    settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
    attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
  select
    p_now, m.sent_at, m.first_received_at, v_xid, m.id, m.queue_id, m.receive_count - m.receive_base,
    octet_length(m.body), coalesce(octet_length(m.attributes), 0), m.message_id, p_outcome, m.group_id,
    m.deduplication_id, m.sender, m.trace_header,
    case when h.mode = 'full' then m.attributes end,
    case when h.mode = 'full' then m.body end,
    nullif(current_setting('application_name'), '')
  from skipmq.message m
  cross join lateral (
    select coalesce(
      (select q.history_mode from skipmq.queue q where q.queue_id = m.queue_id),
      (select g.history_mode from skipmq.generation g where g.queue_id = m.queue_id)) as mode
  ) h
  where m.ctid = any (p_tids) and h.mode <> 'off';
end $$;
-- Does: gives the clock's time to a transaction that is about to write it, once it has a number. So whoever
--   sees that all transactions with lower numbers than his own are over knows that none of them will write an
--   earlier time than his: low_watermark depends on it.
-- Called by: every function that makes a message visible, now or later.
-- Locks, in order: none.
-- Raises: as clock.
-- Relies on index: none.
--
-- CASE evaluates its condition first. Without SET and SECURITY DEFINER, as clock.
create function skipmq.write_time() returns timestamptz
language sql volatile
as $$
  select case when pg_current_xact_id() is not null then skipmq.clock() end
$$;
-- How statements on tables of messages are planned, whoever calls: by index. On a table that was vacuumed while
-- it was empty the planner prefers sequential scans, and a session keeps them when the table has filled. The
-- settings hold in what these functions call, too. README.md says what they cost.
do $$
declare
  v_function text;
begin
  foreach v_function in array '{
    receive_messages, return_messages, delete_messages, change_visibility, is_sent, low_watermark,
    claim_fifo_messages, receive_fifo_messages, receive_fifo_attempt, return_fifo_messages, delete_fifo_messages,
    change_fifo_visibility,
    count_messages, count_in_flight, bound_in_flight, peek_messages, find_message, copy_messages, move_messages,
    delete_picked_messages,
    dead_letter_origins, advance_move_tasks, move_batch, move_fifo_batch, resend, erase_messages, clear_retired, expire_deduplication, expire_messages, fold_counts, mark_noisy
  }'::text[] loop
    execute format(
      'alter function skipmq.%I
        set plan_cache_mode = force_generic_plan
        set enable_seqscan = off
        set enable_bitmapscan = off
        set enable_sort = off
        set enable_hashjoin = off
        set enable_mergejoin = off
        set jit = off', v_function);
  end loop;
end $$;
-- The contract with those who read: Spark, a console, any SQL client with the role skipmq_reader. Columns
-- have plain types that every driver knows (uuid as text, transaction numbers as bigint); views gain columns
-- at their end and lose none.
create schema if not exists skipmq_views;
comment on schema skipmq_views is 'SkipMQ: what readers may see';
-- Every queue that is there, and every one that was: a row for each generation, since a purge begins a new
-- one. Of those that are over (retired_at) only the name is known, and how they ended (purged, deleted).
-- Times in seconds, sizes in bytes, tags as JSON.
create view skipmq_views.queue as
select
  g.queue_id, g.account, g.region, g.name as queue, g.name like '%.fifo' as fifo,
  g.created_at, g.retired_at, g.retired_as,
  coalesce(q.history_mode, g.history_mode) as history_mode,
  q.visibility_timeout, q.delay_seconds, q.maximum_message_size, q.message_retention_period,
  q.receive_message_wait_time_seconds, q.dead_letter_account, q.dead_letter_name, q.max_receive_count,
  q.replication_mode, q.tags::text as tags
from skipmq.generation g
left join skipmq.queue q on q.queue_id = g.queue_id;
-- Every settled message, with the name of its queue, which may be gone. outcome is deleted, expired, purged,
-- dead-lettered (then it lives on in another queue) or redriven (then another message stands for it). attributes (JSON) and body are there where the queue's
-- history mode was full. An incremental reader takes windows of xid below the oldest open transaction,
-- pg_snapshot_xmin(pg_current_snapshot()), and never `id > last`: ids are not in the order of commits.
create view skipmq_views.history as
select
  h.settled_at, h.sent_at, h.first_received_at, h.xid, h.id, h.queue_id, g.account, g.region, g.name as queue,
  g.name like '%.fifo' as fifo, h.receive_count, h.body_bytes, h.attribute_bytes,
  h.message_id::text as message_id, h.outcome, h.group_id, h.deduplication_id, h.sender, h.trace_header,
  h.node, h.attributes, h.body
from skipmq.history h
left join skipmq.generation g on g.queue_id = h.queue_id;
-- The history without what users wrote: neither attributes nor body.
create view skipmq_views.history_metadata as
select
  h.settled_at, h.sent_at, h.first_received_at, h.xid, h.id, h.queue_id, g.account, g.region, g.name as queue,
  g.name like '%.fifo' as fifo, h.receive_count, h.body_bytes, h.attribute_bytes,
  h.message_id::text as message_id, h.outcome, h.group_id, h.deduplication_id, h.sender, h.trace_header,
  h.node
from skipmq.history h
left join skipmq.generation g on g.queue_id = h.queue_id;
-- Every message that waits, is delayed or is in flight. retired: its queue was purged or deleted, nobody can
-- receive it any more, and the history will have it soon. receive_count is what receivers were told.
-- Read it seldom and fast: while a snapshot of it is held nothing can be cleared up.
create view skipmq_views.message as
select
  m.visible_at, m.sent_at, m.enqueued_at, m.first_received_at, m.id, m.queue_id, g.account, g.region,
  g.name as queue, g.name like '%.fifo' as fifo, g.retired_at is not null as retired,
  m.receive_count - m.receive_base as receive_count, octet_length(m.body) as body_bytes,
  coalesce(octet_length(m.attributes), 0) as attribute_bytes, m.message_id::text as message_id,
  m.sequence_number, m.group_id, m.deduplication_id, m.sender, m.trace_header, m.dead_letter_source,
  m.attributes, m.body
from skipmq.message m
join skipmq.generation g on g.queue_id = m.queue_id;
-- The messages without what users wrote: neither attributes nor body, but for their sizes.
create view skipmq_views.message_metadata as
select
  m.visible_at, m.sent_at, m.enqueued_at, m.first_received_at, m.id, m.queue_id, g.account, g.region,
  g.name as queue, g.name like '%.fifo' as fifo, g.retired_at is not null as retired,
  m.receive_count - m.receive_base as receive_count, octet_length(m.body) as body_bytes,
  coalesce(octet_length(m.attributes), 0) as attribute_bytes, m.message_id::text as message_id,
  m.sequence_number, m.group_id, m.deduplication_id, m.sender, m.trace_header, m.dead_letter_source
from skipmq.message m
join skipmq.generation g on g.queue_id = m.queue_id;
-- The days of the history that an export has in whole: how many rows each, all of transactions below to_xid; when the
-- last export saw their files; whether the database has dropped them since.
create view skipmq_views.archived_day as
select a.day, a.rows, a.to_xid, a.archived_at, a.dropped
from skipmq.archived_day a;
-- The server that is asked, in one row: whether it is a standby, and its timeline, which each failover makes
-- another; null where it cannot be known.
create view skipmq_views.server as
select pg_is_in_recovery() as standby, skipmq.timeline() as timeline;
-- The first partitions of the history; the janitor makes the following ones.
select skipmq.create_history_partitions();
