set local check_function_bodies = off;
-- The one schema of SkipMQ. Everything below lives in it; nothing outside is touched.
create schema if not exists skipmq;
comment on schema skipmq is 'SkipMQ: an Amazon-SQS-compatible message broker';

-- Sequences of messages: a standard queue promises no order, so that a backend may take ids in blocks.
create sequence skipmq.message_id_seq as bigint cache 64;
create sequence skipmq.queue_id_seq as integer;
-- A queue as its owner sees it. queue_id names its present incarnation: purge and delete give the name
-- a new one, which empties the queue in one row change; the janitor clears the rows of the old one.
create table skipmq.queue (
  account text collate "C" not null,
  region text collate "C" not null,
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
  policy text not null default '',
  -- As the user wrote them; what receives and checks need of them stands in the columns below.
  redrive_policy text not null default '',
  redrive_allow_policy text not null default '',
  dead_letter_account text collate "C",
  dead_letter_name text collate "C",
  max_receive_count integer check (max_receive_count between 1 and 1000),
  kms_master_key_id text not null default '',
  kms_data_key_reuse_period_seconds integer not null default 300
    check (kms_data_key_reuse_period_seconds between 60 and 86400),
  sqs_managed_sse_enabled boolean not null default true,
  history_mode text not null default 'metadata' check (history_mode in ('off', 'metadata', 'full')),
  tags jsonb not null default '{}',
  created_at timestamptz not null,
  modified_at timestamptz not null,
  purged_at timestamptz,
  primary key (account, region, name),
  check (num_nulls(dead_letter_account, dead_letter_name, max_receive_count) in (0, 3))
);
-- For dead_letter_sources.
create index queue_dead_letter on skipmq.queue (dead_letter_account, region, dead_letter_name, name)
  where dead_letter_name is not null;
-- For send_messages, receive_messages and their kind, which name a queue by its incarnation.
create unique index queue_id on skipmq.queue (queue_id);

-- Every incarnation that ever was: what the janitor still has to clear, and the name that a queue_id in
-- the history had. retired_as says why it ended.
create table skipmq.incarnation (
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
create index incarnation_name on skipmq.incarnation (account, region, name, retired_at);
-- For clear_retired: what is left to clear.
create index incarnation_to_clear on skipmq.incarnation (retired_at)
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
  -- The fence: grows with each receive and is never reset, so that an old receipt can never match.
  receive_count integer not null default 0,
  -- What users see is receive_count - receive_base.
  receive_base integer not null default 0,
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
-- For the same on FIFO queues.
create index message_group_order on skipmq.message (queue_id, group_no, sequence_number)
  where group_no is not null;

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
  outcome text not null check (outcome in ('deleted', 'expired', 'purged', 'dead-lettered')),
  group_id text,
  deduplication_id text,
  sender text,
  trace_header text,
  attributes text,
  body text
) partition by range (settled_at);
-- For incremental readers, which take windows of xid.
create index history_xid on skipmq.history
  using brin (xid) with (pages_per_range = 32, autosummarize = on);
-- Catches what is settled should nobody have made the day's partition: nothing fails, nothing is lost.
create table skipmq.history_default partition of skipmq.history default;
-- What all nodes of one broker share: the key that authenticates receipt handles.
create table skipmq.cluster (
  one boolean primary key default true check (one),
  receipt_key bytea not null,
  created_at timestamptz not null default clock_timestamp()
);
insert into skipmq.cluster (receipt_key)
select decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');
-- Moves of dead letters back to where they came from, or elsewhere. Any node goes on with a task, a chunk
-- at a time, so that it survives the death of the one that was at it.
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
-- Does: goes on with every active task that nobody else is at: moves what its rate allows since the last
--   time, at most p_limit messages, and ends it when nothing is left, it was cancelled or a queue is gone;
--   gives the number of messages moved.
-- Called by: the janitor.
-- Locks, in order: task rows, skipping those that others hold; message rows likewise.
-- Raises: nothing.
-- Relies on index: move_task_active, message_visible.
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
    elsif v_source is null or v_target is null and v_task.destination_arn is not null then
      update skipmq.move_task t
      set status = 'FAILED', failure_reason = 'AWS.SimpleQueueService.NonExistentQueue'
      where t.task_id = v_task.task_id;
      continue;
    end if;
    v_allowed := p_limit;
    if v_task.messages_per_second is not null then
      -- A second's worth at most, however long nobody was at it.
      v_task.paid_until := greatest(v_task.paid_until, v_now - interval '1 second');
      v_allowed := least(p_limit, floor(
        extract(epoch from v_now - v_task.paid_until) * v_task.messages_per_second)::integer);
      continue when v_allowed <= 0;
    end if;
    v_moved := skipmq.move_batch(v_source, v_target, v_allowed);
    update skipmq.move_task t set
      moved = t.moved + v_moved,
      to_move = greatest(t.to_move, t.moved + v_moved),
      status = case when v_moved = 0 then 'COMPLETED' else 'RUNNING' end,
      paid_until = v_task.paid_until
        + make_interval(secs => coalesce(v_moved::float8 / v_task.messages_per_second, 0))
    where t.task_id = v_task.task_id;
    v_total := v_total + v_moved;
  end loop;
  return v_total;
end $$;
-- Does: asks a running task to stop; gives how many messages it has moved. What is moved stays moved.
-- Called by: the CancelMessageMoveTask action; SQL users.
-- Locks, in order: task row.
-- Raises: SQ010 when there is no such task, SQ008 when it is not running.
-- Relies on index: move_task_pkey.
create function skipmq.cancel_move_task(p_task_id uuid) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_status text;
  v_moved bigint;
begin
  select t.status, t.moved into v_status, v_moved
  from skipmq.move_task t where t.task_id = p_task_id
  for update;
  if v_status is null then
    raise exception 'Task does not exist.' using errcode = 'SQ010';
  elsif v_status <> 'RUNNING' then
    raise exception 'Only active tasks can be cancelled.' using errcode = 'SQ008';
  end if;
  update skipmq.move_task t set status = 'CANCELLING' where t.task_id = p_task_id;
  return v_moved;
end $$;
-- Does: hides messages in flight for p_timeouts seconds from now on (0: makes them visible), and says for
--   each, by its place in the arrays, what became of it: changed, missing (settled or received again),
--   not-in-flight (visible already) or beyond-limit (more than 12 hours after its receive).
-- Called by: the ChangeMessageVisibility and ChangeMessageVisibilityBatch actions; SQL users.
-- Locks, in order: message rows by id.
-- Raises: nothing.
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
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  -- Locked in a statement of its own, so that the next one sees the rows as they are now.
  perform from (
    select u.id, u.receive_count
    from unnest(p_ids, p_receive_counts) u (id, receive_count)
    order by u.id
  ) r
  cross join lateral (
    select from skipmq.message m
    where m.id = r.id and m.receive_count = r.receive_count and m.queue_id = p_queue_id
    for no key update
  ) l;
  return query
  with receipt as materialized (
    select u.place, u.id, u.receive_count, u.received_at, v_now + make_interval(secs => u.timeout) as until
    from unnest(p_ids, p_receive_counts, p_received_at, p_timeouts) with ordinality
      u (id, receive_count, received_at, timeout, place)
  ), found as materialized (
    select r.*, m.tid, m.visible_at
    from receipt r
    left join lateral (
      select m.ctid as tid, m.visible_at
      from skipmq.message m
      where m.id = r.id and m.receive_count = r.receive_count and m.queue_id = p_queue_id
    ) m on true
  ), changed as (
    update skipmq.message m set visible_at = f.until
    from found f
    where m.ctid = f.tid and f.visible_at > v_now
      and (f.received_at is null or f.until <= f.received_at + interval '12 hours')
  )
  select
    f.place,
    case
      when f.tid is null then 'missing'
      when f.visible_at <= v_now then 'not-in-flight'
      when f.until > f.received_at + interval '12 hours' then 'beyond-limit'
      else 'changed'
    end
  from found f
  order by f.place;
end $$;
-- Does: checks that a queue may name another as its dead-letter queue; p_target is the ARN in parts.
-- Called by: set_queue_attributes.
-- Locks, in order: queue row of the dead-letter queue (shared, so that it is not deleted meanwhile).
-- Raises: SQ008 when it is not there, in another region or account, of the other type, the
--   source itself, or does not allow it.
-- Relies on index: queue_id, queue_pkey.
create function skipmq.check_redrive(p_queue_id integer, p_policy text, p_target text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
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
    when p_target[6] = v_source.name
      then 'Dead-letter queue must be another queue than the source.'
    when v_target.name is null then 'Dead letter target does not exist.'
    when v_target.fifo <> v_source.fifo
      then 'Dead-letter queue must be same type of queue as the source.'
    when v_allow ->> 'redrivePermission' = 'denyAll'
      or v_allow ->> 'redrivePermission' = 'byQueue' and not v_allow -> 'sourceQueueArns'
        ? format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
      then 'Dead letter target does not allow the source queue to use it.'
  end;
  if v_reason is not null then
    raise exception 'Value % for parameter RedrivePolicy is invalid. Reason: %', p_policy, v_reason
      using errcode = 'SQ008';
  end if;
end $$;
-- Does: settles up to p_limit messages of purged and deleted queues as purged; gives their number.
--   An incarnation is done with an hour after it ended, when a last look finds nothing: until then a
--   send that looked the queue up before may still commit.
-- Called by: the janitor.
-- Locks, in order: advisory lock of the job (when it is held elsewhere nothing is done), message rows.
-- Raises: nothing.
-- Relies on index: incarnation_to_clear, message_visible, message_group_order.
create function skipmq.clear_retired(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_old record;
  v_tids tid[];
  v_count integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('skipmq'), hashtext('clear_retired')) then
    return 0;
  end if;
  for v_old in
    select i.queue_id, i.retired_at
    from skipmq.incarnation i
    where i.retired_at is not null and i.cleared_at is null
    order by i.retired_at
  loop
    select array_agg(h.tid) into v_tids
    from (
      (select m.ctid as tid from skipmq.message m
       where m.queue_id = v_old.queue_id and m.group_no is null
       limit p_limit - v_count)
      union all
      (select m.ctid from skipmq.message m
       where m.queue_id = v_old.queue_id and m.group_no is not null
       limit p_limit - v_count)
    ) h;
    if v_tids is not null then
      v_count := v_count + skipmq.settle(v_tids, 'purged');
    elsif v_old.retired_at < v_now - interval '1 hour' then
      update skipmq.incarnation i set cleared_at = v_now where i.queue_id = v_old.queue_id;
    end if;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
-- Does: gives the one clock of the broker, the database's. Tests may move it by the session setting
--   skipmq.clock_offset (an interval), which only members of the schema's owner may use.
-- Called by: every function that compares or writes times, once each.
-- Locks, in order: none.
-- Raises: 42501 when somebody else sets skipmq.clock_offset.
-- Relies on index: none.
create function skipmq.clock() returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_offset text := current_setting('skipmq.clock_offset', true);
begin
  if v_offset is null or v_offset = '' then
    return clock_timestamp();
  end if;
  if not pg_has_role(session_user, (select nspowner from pg_namespace where nspname = 'skipmq'), 'member') then
    raise exception 'only the owner of the schema may move the clock' using errcode = '42501';
  end if;
  return clock_timestamp() + v_offset::interval;
end $$;
-- Does: counts a queue's messages: visible, in flight (received, hidden) and delayed (never received).
-- Called by: the GetQueueAttributes action, `skipmq queue show`; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.count_messages(p_queue_id integer)
returns table (visible bigint, in_flight bigint, delayed bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_retention interval;
begin
  select make_interval(secs => q.message_retention_period) into v_retention
  from skipmq.queue q where q.queue_id = p_queue_id;
  select count(*) into visible from skipmq.message m
  where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
    and m.visible_at > v_now - v_retention and m.visible_at <= v_now;
  select
    count(*) filter (where m.receive_count > m.receive_base),
    count(*) filter (where m.receive_count = m.receive_base)
  into in_flight, delayed
  from skipmq.message m
  where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null and m.visible_at > v_now;
  return next;
end $$;
-- Does: makes the history's partitions of today and the p_days after it (UTC), and moves what the default
--   partition caught of such a day into the day's own; gives the number made.
-- Called by: the installation, the janitor.
-- Locks, in order: advisory lock of the job, history and its default partition (briefly, for each day).
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
  perform pg_advisory_xact_lock(hashtext('skipmq'), hashtext('create_history_partitions'));
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
-- Does: creates a queue, or finds the one of that name whose attributes equal those given.
-- Called by: the CreateQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ002 when an attribute differs, SQ003 within p_cooldown of the deletion of the same name.
-- Relies on index: queue_pkey, incarnation_name.
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
    select from skipmq.incarnation i
    where i.account = p_account and i.region = p_region and i.name = p_name
      and i.retired_at > v_now - p_cooldown and i.retired_as = 'deleted')
    and not exists (
      select from skipmq.queue q where q.account = p_account and q.region = p_region and q.name = p_name)
  then
    raise exception 'You must wait % seconds after deleting a queue before you can create another with the same name.',
      extract(epoch from p_cooldown)::integer using errcode = 'SQ003';
  end if;

  insert into skipmq.queue (account, region, name, queue_id, history_mode, tags, created_at, modified_at)
  values (p_account, p_region, p_name, nextval('skipmq.queue_id_seq'), p_history_mode, p_tags, v_now, v_now)
  on conflict do nothing
  returning queue_id into v_id;

  if v_id is not null then
    perform skipmq.set_queue_attributes(v_id, p_attributes);
    insert into skipmq.incarnation (queue_id, account, region, name, history_mode, created_at)
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
-- Does: deletes messages that are still at the receive named by p_receive_counts, with a row of history
--   each as the queue's history mode says; gives their number. Others are passed over: an old receipt
--   does nothing, and deleting twice is no error.
-- Called by: the DeleteMessage and DeleteMessageBatch actions; SQL users.
-- Locks, in order: message rows by id.
-- Raises: SQ005 when no queue has this incarnation.
-- Relies on index: message_pkey, queue_id.
--
-- The delete finds its rows by key, not by ctid: a change of visibility that commits meanwhile moves the
-- row, which is then found again and deleted; one that was received again no longer matches its receipt.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.delete_messages(
  p_queue_id integer, p_ids bigint[], p_receive_counts integer[], p_commit text default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_mode text;
  v_count integer;
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  select q.history_mode into v_mode from skipmq.queue q where q.queue_id = p_queue_id;
  if v_mode is null then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;

  with receipt as materialized (
    select u.id, u.receive_count
    from unnest(p_ids, p_receive_counts) u (id, receive_count)
    order by u.id
  ), gone as (
    delete from skipmq.message m
    using receipt r
    where m.id = r.id and m.receive_count = r.receive_count and m.queue_id = p_queue_id
    returning m.*
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body)
    select
      v_now, g.sent_at, g.first_received_at, pg_current_xact_id()::text::bigint, g.id, g.queue_id,
      g.receive_count - g.receive_base, octet_length(g.body), coalesce(octet_length(g.attributes), 0),
      g.message_id, 'deleted', g.group_id, g.deduplication_id, g.sender, g.trace_header,
      case when v_mode = 'full' then g.attributes end,
      case when v_mode = 'full' then g.body end
    from gone g
    where v_mode <> 'off'
  )
  select count(*) into v_count from gone;
  return v_count;
end $$;
-- Does: deletes a queue at once and leaves its messages to the janitor.
-- Called by: the DeleteQueue action; SQL users.
-- Locks, in order: queue row, incarnation row.
-- Raises: SQ005 when no queue has this incarnation.
-- Relies on index: queue_id, incarnation_pkey.
create function skipmq.delete_queue(p_queue_id integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_mode text;
begin
  delete from skipmq.queue q where q.queue_id = p_queue_id returning q.history_mode into v_mode;
  if not found then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;
  update skipmq.incarnation i
  set retired_at = skipmq.clock(), retired_as = 'deleted', history_mode = v_mode
  where i.queue_id = p_queue_id;
end $$;
-- Does: drops the history's partitions whose last day ended more than p_keep ago, and deletes what the
--   default partition has of such days; gives the number of partitions.
-- Called by: the janitor.
-- Locks, in order: advisory lock of the job (when it is held elsewhere nothing is done), the partition
--   and the history table, briefly.
-- Raises: 22023 when p_keep is less than a day; 55P03 when a reader holds a partition for longer than the
--   lock_timeout: try again later.
-- Relies on index: none.
create function skipmq.drop_history_partitions(p_keep interval) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  v_oldest date := ((skipmq.clock() - p_keep) at time zone 'UTC')::date;
  v_name text;
  v_count integer := 0;
begin
  if p_keep < interval '1 day' then
    raise exception 'the history is kept for a day at least' using errcode = '22023';
  end if;
  if not pg_try_advisory_xact_lock(hashtext('skipmq'), hashtext('drop_history_partitions')) then
    return 0;
  end if;
  for v_name in
    select c.relname
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'skipmq.history'::regclass
      and c.relname ~ '^history_[0-9]{8}$'
      and to_date(right(c.relname, 8), 'YYYYMMDD') < v_oldest
  loop
    execute format('drop table skipmq.%I', v_name);
    v_count := v_count + 1;
  end loop;
  delete from skipmq.history_default h where h.settled_at < v_oldest::timestamp at time zone 'UTC';
  return v_count;
end $$;
-- Does: settles up to p_limit messages that are past their queue's retention period; gives their number.
-- Called by: the janitor.
-- Locks, in order: advisory lock of the job (when it is held elsewhere nothing is done), message rows.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.expire_messages(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queue record;
  v_count integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('skipmq'), hashtext('expire_messages')) then
    return 0;
  end if;
  for v_queue in
    select q.queue_id, v_now - make_interval(secs => q.message_retention_period) as horizon
    from skipmq.queue q
    where not q.fifo
  loop
    -- Keys only move forward, so that all up to the horizon was enqueued before it.
    v_count := v_count + skipmq.expire_visible(
      v_queue.queue_id, '-infinity', v_queue.horizon, v_queue.horizon, p_limit - v_count);
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
-- Does: settles up to p_limit messages of a standard queue that became visible after p_from, not after
--   p_to, and are past its retention period (enqueued by p_horizon); gives their number.
-- Called by: receive_messages, expire_messages.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.expire_visible(
  p_queue_id integer, p_from timestamptz, p_to timestamptz, p_horizon timestamptz, p_limit integer
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_tids tid[];
begin
  select array_agg(h.tid) into v_tids
  from (
    select m.ctid as tid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at > p_from and m.visible_at <= p_to and m.enqueued_at <= p_horizon
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  ) h;
  if v_tids is null then
    return 0;
  end if;
  return skipmq.settle(v_tids, 'expired');
end $$;
-- Does: finds a queue by name; no row when there is none.
-- Called by: every action on a queue, through the node's cache of at most a second.
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
-- Does: lists the newest tasks of a source, newest first.
-- Called by: the ListMessageMoveTasks action; SQL users.
-- Locks, in order: none.
-- Raises: SQ010 when the source is not there.
-- Relies on index: move_task_source.
create function skipmq.list_move_tasks(p_source_arn text, p_limit integer default 1)
returns table (
  task_id uuid, status text, destination_arn text, messages_per_second integer, moved bigint,
  to_move bigint, failure_reason text, started_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if skipmq.queue_of_arn(p_source_arn) is null then
    raise exception 'The resource that you specified for the SourceArn parameter doesn''t exist.'
      using errcode = 'SQ010';
  end if;
  return query
  select
    t.task_id, t.status, t.destination_arn, t.messages_per_second, t.moved, t.to_move, t.failure_reason,
    t.started_at
  from skipmq.move_task t
  where t.source_arn = p_source_arn
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
-- Does: moves up to p_limit visible messages from one standard queue to another (p_destination null: each
--   to the queue it came from), where they are visible at once and their receive count begins anew; gives
--   their number. What came from a queue that is gone stays.
-- Called by: advance_move_tasks.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.move_batch(p_source integer, p_destination integer, p_limit integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_count integer;
begin
  with head as materialized (
    select m.ctid as tid, coalesce(p_destination, origin.queue_id) as target
    from skipmq.message m
    left join lateral (
      select q.queue_id
      from skipmq.queue q
      where q.account = split_part(m.dead_letter_source, ':', 5)
        and q.region = split_part(m.dead_letter_source, ':', 4)
        and q.name = split_part(m.dead_letter_source, ':', 6)
    ) origin on p_destination is null
    where m.queue_id = p_source and m.shard = 0 and m.group_no is null
      and m.visible_at > '-infinity' and m.visible_at <= v_now
      and coalesce(p_destination, origin.queue_id) <> p_source
    order by m.visible_at
    limit p_limit
    for no key update of m skip locked
  )
  update skipmq.message m set
    queue_id = h.target,
    visible_at = v_now,
    receive_count = m.receive_count + 1,
    receive_base = m.receive_count + 1,
    first_received_at = null,
    dead_letter_source = null
  from head h
  where m.ctid = h.tid;
  get diagnostics v_count = row_count;
  return v_count;
end $$;
-- Does: moves up to p_limit visible messages of a standard queue that have been received p_most times to
--   its dead-letter queue, where they are visible at once, with a row of history each; gives their number.
-- Called by: receive_messages, when it finds too few that it may give.
-- Locks, in order: queue row of the dead-letter queue (shared: it is neither purged nor deleted
--   meanwhile), message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- The move grows the fence, so that old receipts die, and hides that growth from the count that users see.
create function skipmq.move_dead_letters(
  p_queue_id integer, p_target integer, p_most integer, p_from timestamptz, p_to timestamptz, p_limit integer
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_source skipmq.queue;
  v_count integer;
begin
  select q.* into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then -- Purged a moment ago.
    return 0;
  end if;
  perform from skipmq.queue q where q.queue_id = p_target for key share;
  if not found then
    return 0;
  end if;
  with head as materialized (
    select m.ctid as tid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at > p_from and m.visible_at <= p_to
      and m.receive_count - m.receive_base >= p_most
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  ), moved as (
    update skipmq.message m set
      queue_id = p_target,
      visible_at = p_to,
      receive_count = m.receive_count + 1,
      receive_base = m.receive_base + 1,
      dead_letter_source = format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
    from head h
    where m.ctid = h.tid
    returning m.*
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body)
    select
      p_to, g.sent_at, g.first_received_at, pg_current_xact_id()::text::bigint, g.id, p_queue_id,
      g.receive_count - g.receive_base, octet_length(g.body), coalesce(octet_length(g.attributes), 0),
      g.message_id, 'dead-lettered', g.group_id, g.deduplication_id, g.sender, g.trace_header,
      case when v_source.history_mode = 'full' then g.attributes end,
      case when v_source.history_mode = 'full' then g.body end
    from moved g
    where v_source.history_mode <> 'off'
  )
  select count(*) into v_count from moved;
  return v_count;
end $$;
-- Does: empties a queue at once, in-flight messages included, by giving its name a new incarnation.
-- Called by: the PurgeQueue action; SQL users.
-- Locks, in order: queue row, incarnation row.
-- Raises: SQ005 when no queue has this incarnation, SQ004 within p_cooldown of the last purge.
-- Relies on index: queue_id, incarnation_pkey.
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
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id for update;
  if not found then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;
  if v_queue.purged_at > v_now - p_cooldown then
    raise exception 'Only one PurgeQueue operation on % is allowed every % seconds.',
      v_queue.name, extract(epoch from p_cooldown)::integer using errcode = 'SQ004';
  end if;
  update skipmq.queue q set queue_id = nextval('skipmq.queue_id_seq'), purged_at = v_now
  where q.queue_id = p_queue_id
  returning q.queue_id into v_id;
  update skipmq.incarnation i
  set retired_at = v_now, retired_as = 'purged', history_mode = v_queue.history_mode
  where i.queue_id = p_queue_id;
  insert into skipmq.incarnation (queue_id, account, region, name, history_mode, created_at)
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
    'HistoryMode', p_queue.history_mode)
$$;
-- Does: gives the present incarnation of a queue, by name: the first parameter of the message functions.
-- Called by: send_message; SQL users.
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
-- Does: finds the present incarnation of the queue that an ARN names; null when there is none.
-- Called by: start_move_task, list_move_tasks, advance_move_tasks.
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
-- Does: gives the key that authenticates receipt handles, the same for all nodes.
-- Called by: a node when it starts.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.receipt_key() returns bytea
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.receipt_key from skipmq.cluster c
$$;
-- Does: claims up to p_limit visible messages of a standard queue and hides them for p_visibility_timeout
--   seconds (null: the queue's). What has been received as often as the redrive policy allows goes to the
--   dead-letter queue instead, with a row of history. When there is none it gives one row without an id, whose next_visible_in
--   says how long until the next one becomes visible (null: none is waiting).
-- Called by: the ReceiveMessage action; SQL users.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: SQ005 when no queue has this incarnation, SQ007 when the queue is FIFO.
-- Relies on index: queue_id, message_visible.
--
-- What lies further back than the retention period is passed over by the index condition; an expired
-- message that became visible since is settled here, since only here it is met in order.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.receive_messages(
  p_queue_id integer,
  p_limit integer default 1,
  p_visibility_timeout integer default null,
  p_commit text default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, next_visible_in interval
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_fifo boolean;
  v_until timestamptz;
  v_horizon timestamptz;
  v_left integer := p_limit;
  v_got integer;
  v_most integer;
  v_dead_letters integer;
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  select
    q.fifo,
    -- Never now itself: what this call has claimed must not be claimed again by its next round.
    v_now + greatest(
      make_interval(secs => coalesce(p_visibility_timeout, q.visibility_timeout)), interval '1 microsecond'),
    v_now - make_interval(secs => q.message_retention_period),
    q.max_receive_count,
    case when q.dead_letter_name is not null then (
      select d.queue_id from skipmq.queue d
      where d.account = q.dead_letter_account and d.region = q.region and d.name = q.dead_letter_name)
    end
  into v_fifo, v_until, v_horizon, v_most, v_dead_letters
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  elsif v_fifo then
    raise exception 'receive_messages is for standard queues' using errcode = 'SQ007';
  end if;
  -- Without a dead-letter queue, or when that has been deleted, nothing is received too often.
  if v_dead_letters is null or v_dead_letters = p_queue_id then
    v_most := 2147483647;
    v_dead_letters := null;
  end if;

  loop
    return query
    with candidate as materialized (
      select m.ctid as tid, m.enqueued_at, m.receive_count - m.receive_base as received
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
        and m.visible_at > v_horizon and m.visible_at <= v_now
      order by m.visible_at
      limit v_left
      for no key update skip locked
    )
    update skipmq.message m set
      visible_at = v_until,
      receive_count = m.receive_count + 1,
      first_received_at = coalesce(m.first_received_at, v_now)
    from candidate c
    where m.ctid = c.tid and c.enqueued_at > v_horizon and c.received < v_most
    returning
      m.id, m.receive_count, v_now, m.message_id, m.body, m.attributes,
      m.receive_count - m.receive_base, m.sent_at, m.first_received_at, m.group_id, m.sender,
      m.trace_header, m.dead_letter_source, null::interval;
    get diagnostics v_got = row_count;
    v_left := v_left - v_got;
    exit when v_left = 0;
    -- Too few: the queue is empty, or what has expired or been received too often was in the way.
    exit when skipmq.expire_visible(p_queue_id, v_horizon, v_now, v_horizon, 1000) = 0
      and (v_dead_letters is null or skipmq.move_dead_letters(
        p_queue_id, v_dead_letters, v_most, v_horizon, v_now, 1000) = 0);
  end loop;

  if v_left = p_limit then
    return query
    select
      null::bigint, null::integer, v_now, null::uuid, null::text, null::text, null::integer,
      null::timestamptz, null::timestamptz, null::text, null::text, null::text, null::text,
      (select m.visible_at
       from skipmq.message m
       where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null and m.visible_at > v_now
       order by m.visible_at
       limit 1) - v_now;
  end if;
end $$;
-- Does: sets a queue's policy if it still is p_old, and tells whether it was: whoever changes a part of
--   the policy reads it, writes it so, and begins anew on false; then no concurrent change is lost.
-- Called by: the AddPermission and RemovePermission actions; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when no queue has this incarnation.
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
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;
  return false;
end $$;
-- Does: stores one message in the standard queue of that name, within the caller's transaction.
-- Called by: SQL users: `insert into orders …; select skipmq.send_message('orders', …); commit;`.
-- Locks, in order: none.
-- Raises: SQ001 when there is no such queue; SQ008 when body and attributes are longer than it takes, or a
--   parameter is not what SQS takes; SQ009 when the body has characters that XML 1.0 does not allow.
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
  v_queue_id integer := skipmq.queue_id(p_queue, p_account, p_region);
  v_message_id uuid := gen_random_uuid();
  v_most integer;
begin
  select q.maximum_message_size into v_most from skipmq.queue q where q.queue_id = v_queue_id;
  if octet_length(p_body) + coalesce(octet_length(p_attributes::text), 0) > v_most then
    raise exception 'One or more parameters are invalid. Reason: Message must be shorter than % bytes.', v_most
      using errcode = 'SQ008';
  elsif p_body is null or p_body = '' then
    raise exception 'The request must contain the parameter MessageBody.' using errcode = 'SQ008';
  elsif p_delay_seconds not between 0 and 900 then
    raise exception 'Value % for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.',
      p_delay_seconds using errcode = 'SQ008';
  end if;
  if p_body ~ E'[\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f\\ufffe\\uffff]' then
    raise exception 'Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF'
      using errcode = 'SQ009';
  end if;
  if jsonb_typeof(p_attributes) <> 'object' or exists (
    select
    from jsonb_each(case when jsonb_typeof(p_attributes) = 'object' then p_attributes end) a
    where jsonb_typeof(a.value) <> 'object'
      or jsonb_typeof(a.value -> 'DataType') is distinct from 'string'
      or jsonb_typeof(coalesce(a.value -> 'StringValue', a.value -> 'BinaryValue'))
        is distinct from 'string')
  then
    raise exception 'Message attributes are {"name": {"DataType": "String", "StringValue": "value"}}.'
      using errcode = 'SQ008';
  end if;
  perform skipmq.send_messages(
    v_queue_id, array[v_message_id], array[p_body], array[p_attributes::text], array[p_delay_seconds],
    array[null::text], array[null::text], session_user::text);
  return v_message_id;
end $$;
-- Does: stores messages in a standard queue: all of them, or none when it raises.
-- Called by: the SendMessage and SendMessageBatch actions, send_message; SQL users.
-- Locks, in order: none.
-- Raises: SQ005 when no queue has this incarnation, SQ007 when the queue is FIFO.
-- Relies on index: queue_id.
--
-- The arrays run in parallel, one element a message. A null in p_delays takes the queue's delay.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.send_messages(
  p_queue_id integer,
  p_message_ids uuid[],
  p_bodies text[],
  p_attributes text[],
  p_delays integer[],
  p_group_ids text[],
  p_trace_headers text[],
  p_sender text default null,
  p_commit text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_fifo boolean;
  v_delay integer;
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  select q.fifo, q.delay_seconds into v_fifo, v_delay
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  elsif v_fifo then
    raise exception 'send_messages is for standard queues' using errcode = 'SQ007';
  end if;
  insert into skipmq.message (
    id, visible_at, sent_at, enqueued_at, queue_id, message_id, group_id, sender, trace_header, attributes, body)
  select
    nextval('skipmq.message_id_seq'),
    v_now + make_interval(secs => coalesce(u.delay, v_delay)),
    v_now, v_now, p_queue_id, u.message_id, u.group_id, p_sender, u.trace_header, u.attributes, u.body
  from unnest(p_message_ids, p_bodies, p_attributes, p_delays, p_group_ids, p_trace_headers)
    u (message_id, body, attributes, delay, group_id, trace_header);
end $$;
-- Does: changes the attributes named in p_attributes (SQS names, text values); others stay.
-- Called by: create_queue, the SetQueueAttributes action; SQL users.
-- Locks, in order: queue row of the dead-letter queue (shared), queue row.
-- Raises: SQ005 when no queue has this incarnation, SQ006 when there is no attribute of a name, SQ008 when
--   a redrive policy names a queue that is not there or does not allow it, 23514 when a value is out of
--   its range.
-- Relies on index: queue_id.
create function skipmq.set_queue_attributes(p_queue_id integer, p_attributes jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_unknown text;
  v_redrive jsonb;
  v_target text[];
begin
  select a.key into v_unknown
  from jsonb_object_keys(p_attributes) a (key)
  where a.key not in (
    'VisibilityTimeout', 'DelaySeconds', 'MaximumMessageSize', 'MessageRetentionPeriod',
    'ReceiveMessageWaitTimeSeconds', 'Policy', 'RedrivePolicy', 'RedriveAllowPolicy', 'KmsMasterKeyId', 'KmsDataKeyReusePeriodSeconds',
    'SqsManagedSseEnabled', 'HistoryMode')
  limit 1;
  if v_unknown is not null then
    raise exception 'Unknown Attribute %.', v_unknown using errcode = 'SQ006';
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
    modified_at = skipmq.clock()
  where q.queue_id = p_queue_id;
  if not found then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;
end $$;
-- Does: deletes the given rows, which the caller has locked, and leaves a row of history for each as the
--   history mode of their queue says; gives their number.
-- Called by: expire_visible, clear_retired.
-- Locks, in order: none but what the caller holds.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), incarnation_pkey, queue_id.
create function skipmq.settle(p_tids tid[], p_outcome text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_xid bigint := pg_current_xact_id()::text::bigint;
  v_count integer;
begin
  with gone as (
    delete from skipmq.message m where m.ctid = any (p_tids) returning m.*
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body)
    select
      v_now, g.sent_at, g.first_received_at, v_xid, g.id, g.queue_id, g.receive_count - g.receive_base,
      octet_length(g.body), coalesce(octet_length(g.attributes), 0), g.message_id, p_outcome, g.group_id,
      g.deduplication_id, g.sender, g.trace_header,
      case when i.mode = 'full' then g.attributes end,
      case when i.mode = 'full' then g.body end
    from gone g
    cross join lateral (
      select coalesce(
        (select q.history_mode from skipmq.queue q where q.queue_id = g.queue_id),
        (select r.history_mode from skipmq.incarnation r where r.queue_id = g.queue_id)) as mode
    ) i
    where i.mode <> 'off'
  )
  select count(*) into v_count from gone;
  return v_count;
end $$;
-- Does: begins to move the messages of a dead-letter queue; gives the number of the task.
-- Called by: the StartMessageMoveTask action; SQL users.
-- Locks, in order: none but the task's own row.
-- Raises: SQ010 when a queue is not there, SQ008 when the source is nobody's dead-letter queue or has an
--   active task.
-- Relies on index: queue_dead_letter, move_task_active.
create function skipmq.start_move_task(
  p_source_arn text, p_destination_arn text default null, p_messages_per_second integer default null
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
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
  end if;
  if not exists (
    select from skipmq.queue q
    where q.dead_letter_account = split_part(p_source_arn, ':', 5)
      and q.region = split_part(p_source_arn, ':', 4)
      and q.dead_letter_name = split_part(p_source_arn, ':', 6))
  then
    raise exception 'Source queue must be configured as a Dead Letter Queue.' using errcode = 'SQ008';
  end if;
  insert into skipmq.move_task (
    task_id, source_arn, destination_arn, status, messages_per_second, to_move, started_at, paid_until)
  select
    gen_random_uuid(), p_source_arn, p_destination_arn, 'RUNNING', p_messages_per_second,
    c.visible, v_now, v_now
  from skipmq.count_messages(v_source) c
  on conflict (source_arn) where status in ('RUNNING', 'CANCELLING') do nothing
  returning task_id into v_task;
  if v_task is null then
    raise exception 'There is already a task running. Only one active task is allowed for a source queue arn at a given time.'
      using errcode = 'SQ008';
  end if;
  return v_task;
end $$;
-- Does: gives a queue the tags of p_tags (text by text); one of the same key is replaced, others stay.
-- Called by: the TagQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when no queue has this incarnation, SQ008 when the queue would have more than 50 tags.
-- Relies on index: queue_id.
create function skipmq.tag_queue(p_queue_id integer, p_tags jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_most constant integer := 50;
  v_tags jsonb;
begin
  update skipmq.queue q set tags = q.tags || p_tags where q.queue_id = p_queue_id returning q.tags into v_tags;
  if not found then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;
  if (select count(*) from jsonb_object_keys(v_tags)) > v_most then
    raise exception 'Too many tags: a queue can have at most %.', v_most using errcode = 'SQ008';
  end if;
end $$;
-- Does: takes the tags of these keys from a queue; a key that it does not have is passed over.
-- Called by: the UntagQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when no queue has this incarnation.
-- Relies on index: queue_id.
create function skipmq.untag_queue(p_queue_id integer, p_keys text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.queue q set tags = q.tags - p_keys where q.queue_id = p_queue_id;
  if not found then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;
end $$;
-- The first partitions of the history; the janitor makes the following ones.
select skipmq.create_history_partitions();
-- Roles with the least that each needs. The owner is whoever runs the migrations. Roles belong to the
-- whole server: where the owner may not create them, an administrator does, and the migration is run
-- again. Neither can log in over a network until it is given a password.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['skipmq_node', 'skipmq_reader'] loop
    if not exists (select from pg_roles where rolname = v_role) then
      begin
        execute format('create role %I login', v_role);
      exception
        when insufficient_privilege then
          raise warning 'role % is missing and % may not create it', v_role, current_user;
        when duplicate_object or unique_violation then
          null; -- Another database of this server was migrated at the same moment.
      end;
    end if;
  end loop;

  revoke execute on all functions in schema skipmq from public;
  if exists (select from pg_roles where rolname = 'skipmq_node') then
    grant usage on schema skipmq to skipmq_node;
    grant execute on all functions in schema skipmq to skipmq_node;
    -- Only for other functions, which call them with the owner's rights.
    revoke execute on function
      skipmq.settle(tid[], text),
      skipmq.move_batch(integer, integer, integer),
      skipmq.check_redrive(integer, text, text[]),
      skipmq.move_dead_letters(integer, integer, integer, timestamptz, timestamptz, integer),
      skipmq.expire_visible(integer, timestamptz, timestamptz, timestamptz, integer)
      from skipmq_node;
  end if;
  if exists (select from pg_roles where rolname = 'skipmq_reader') then
    grant usage on schema skipmq to skipmq_reader;
  end if;
end $$;
