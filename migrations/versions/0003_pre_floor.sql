-- What the schema gains for speed: claims that begin where the last one ended, and what goes with them.
-- Nodes of the release before call the new functions as they called the old.
set local check_function_bodies = off;

alter table skipmq.queue add column replication_mode text not null default 'any' check (replication_mode in ('none', 'any'));

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
create or replace function skipmq.change_visibility(
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
  v_now timestamptz := skipmq.write_time();
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
    select u.place, u.id, u.receive_count, u.received_at, v_now + make_interval(secs => greatest(u.timeout, 0)) as until
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
-- Does: gives the one clock of the broker, the database's. Tests may move it by the session setting
--   skipmq.clock_offset (an interval), which only members of the schema's owner may use.
-- Called by: every function that compares times, once each; write_time.
-- Locks, in order: none.
-- Raises: 42501 when somebody else sets skipmq.clock_offset.
-- Relies on index: none.
create or replace function skipmq.clock() returns timestamptz
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
-- Does: settles up to p_limit messages of a shard of a standard queue that became visible from p_from to
--   p_to, and are past its retention period (enqueued by p_horizon); gives their number.
-- Called by: receive_messages, expire_messages.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
create or replace function skipmq.expire_visible(
  p_queue_id integer, p_shard smallint, p_from timestamptz, p_to timestamptz, p_horizon timestamptz, p_limit integer
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
-- Does: moves up to p_limit visible messages from one standard queue to another (p_destination null: each
--   to the queue it came from), where they are visible at once and their receive count begins anew; gives
--   their number. What came from a queue that is gone stays.
-- Called by: advance_move_tasks.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
create or replace function skipmq.move_batch(p_source integer, p_destination integer, p_limit integer) returns integer
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
  v_now timestamptz := skipmq.write_time();
  v_shard smallint;
  v_count integer := 0;
begin
  foreach v_shard in array array[0, 1] loop
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
      where m.queue_id = p_source and m.shard = v_shard and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= v_now
        and coalesce(p_destination, origin.queue_id) <> p_source
      order by m.visible_at
      limit p_limit - v_count
      for no key update of m skip locked
    ), moved as (
      update skipmq.message m set
        queue_id = h.target,
        shard = 0,
        visible_at = v_now,
        receive_count = m.receive_count + 1,
        receive_base = m.receive_count + 1,
        first_received_at = null,
        dead_letter_source = null
      from head h
      where m.ctid = h.tid
      returning m.queue_id
    ), counted as (
      insert into skipmq.queue_delta (at, queue_id, change)
      select v_now, c.queue_id, sum(c.change)
      from moved m
      cross join lateral (values (m.queue_id, 1), (p_source, -1)) c (queue_id, change)
      group by c.queue_id
    )
    select v_count + count(*) into v_count from moved;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
-- Does: moves up to p_limit visible messages of a shard of a standard queue that have been received p_most times to
--   its dead-letter queue, where they are visible at once, with a row of history each; gives their number.
-- Called by: receive_messages, when it finds too few that it may give.
-- Locks, in order: queue row of the dead-letter queue (shared: it is neither purged nor deleted
--   meanwhile), message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- The move grows the fence, so that old receipts die, and hides that growth from the count that users see.
create or replace function skipmq.move_dead_letters(
  p_queue_id integer, p_shard smallint, p_target integer, p_most integer, p_from timestamptz, p_to timestamptz, p_limit integer
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
  v_now timestamptz;
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
  v_now := skipmq.write_time();
  with head as materialized (
    select m.ctid as tid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
      and m.visible_at >= p_from and m.visible_at <= p_to
      and m.receive_count - m.receive_base >= p_most
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  ), moved as (
    update skipmq.message m set
      queue_id = p_target,
      shard = 0,
      visible_at = v_now,
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
      v_now, g.sent_at, g.first_received_at, pg_current_xact_id()::text::bigint, g.id, p_queue_id,
      g.receive_count - g.receive_base, octet_length(g.body), coalesce(octet_length(g.attributes), 0),
      g.message_id, 'dead-lettered', g.group_id, g.deduplication_id, g.sender, g.trace_header,
      case when v_source.history_mode = 'full' then g.attributes end,
      case when v_source.history_mode = 'full' then g.body end
    from moved g
    where v_source.history_mode <> 'off'
  )
  select count(*) into v_count from moved;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change)
    values (v_now, p_queue_id, -v_count), (v_now, p_target, v_count);
  end if;
  return v_count;
end $$;
-- Does: moves messages that are not in flight to another queue of the same type, where their receive count
--   begins anew; says for each by its place in p_ids: moved, missing or in-flight.
-- Called by: the MoveMessages action; SQL users.
-- Locks, in order: queue row of the target (shared: it is neither purged nor deleted meanwhile); message
--   rows by id; for FIFO group rows by number before, and those of append_fifo.
-- Raises: SQ005 when no queue has one of the incarnations, SQ007 when the queues are of different types.
-- Relies on index: queue_id, message_pkey; for FIFO those of lock_groups, append_fifo and refresh_groups.
create or replace function skipmq.move_messages(p_queue_id integer, p_ids bigint[], p_target integer)
returns table (place bigint, outcome text)
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
  v_now timestamptz := skipmq.write_time();
  v_fifo boolean;
  v_target boolean;
  v_groups bigint[];
  v_free bigint[];
  v_held bigint[];
begin
  select q.fifo into v_fifo from skipmq.queue q where q.queue_id = p_queue_id;
  select q.fifo into v_target from skipmq.queue q where q.queue_id = p_target for key share;
  if v_fifo is null or v_target is null then
    raise exception 'no queue has the incarnation % or %', p_queue_id, p_target using errcode = 'SQ005';
  elsif v_fifo <> v_target then
    raise exception 'Messages move between queues of the same type.' using errcode = 'SQ007';
  end if;
  if v_fifo then
    v_groups := skipmq.lock_groups(p_queue_id, p_ids);
  end if;
  select
    array_agg(m.id order by m.sequence_number, m.id) filter (where m.visible_at <= v_now or not m.received),
    array_agg(m.id) filter (where m.visible_at > v_now and m.received)
  into v_free, v_held
  from (
    select m.*
    from (select distinct u.id from unnest(p_ids) u (id) order by u.id) u
    cross join lateral (
      select m.id, m.sequence_number, m.visible_at, m.receive_count > m.receive_base as received
      from skipmq.message m
      where m.id = u.id and m.queue_id = p_queue_id
      for no key update
    ) m
  ) m;
  if v_free is null then
    null;
  elsif v_fifo then
    perform skipmq.append_fifo(p_queue_id, v_free, array_fill(p_target, array[cardinality(v_free)]), 'redriven');
    perform skipmq.refresh_groups(p_queue_id, v_groups);
  else
    update skipmq.message m set
      queue_id = p_target,
      shard = 0,
      visible_at = v_now,
      receive_count = m.receive_count + 1,
      receive_base = m.receive_count + 1,
      first_received_at = null,
      dead_letter_source = null
    where m.id = any (v_free);
    insert into skipmq.queue_delta (at, queue_id, change)
    values (v_now, p_queue_id, -cardinality(v_free)), (v_now, p_target, cardinality(v_free));
  end if;
  return query
  select u.place, case
    when u.id = any (v_free) then 'moved' when u.id = any (v_held) then 'in-flight' else 'missing' end
  from unnest(p_ids) with ordinality u (id, place)
  order by u.place;
end $$;
-- Does: gives a queue's attributes under their SQS names, all values as text.
-- Called by: create_queue, get_queue.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create or replace function skipmq.queue_attributes(p_queue skipmq.queue) returns jsonb
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
-- Does: says what a node must know to begin its claims of a standard queue higher up: the time, the oldest
--   transaction that runs, this one's own number, and when the first message from p_from on (null: of all)
--   became or becomes visible. Once the oldest transaction of a later call is past this call's number,
--   every message that is or ever will be visible has a visible_at of this call's time or later, or is
--   seen by that later call: writers take their time after their number, and never write an earlier one.
-- Called by: the ReceiveMessage action, now and then.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- Numbers are in order of time, snapshots say which of them are done (PostgreSQL manual, 9.27.8): read-only
-- transactions have none, so that a snapshot held open keeps nothing back.
create function skipmq.receive_floor(p_queue_id integer, p_from timestamptz default null)
returns table (looked_at timestamptz, oldest bigint, number bigint, first_visible_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  looked_at := skipmq.clock();
  number := pg_current_xact_id()::text::bigint;
  oldest := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  -- In a statement of its own: it sees what those have done that the snapshot before says are done.
  -- By hand it may have been made infinite, which is more than a client can read.
  first_visible_at := (
    select nullif(greatest(m.visible_at, timestamptz '0001-01-02 00:00+00'), 'infinity')
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at >= coalesce(p_from, '-infinity')
    order by m.visible_at
    limit 1);
  return next;
end $$;
drop function skipmq.receive_messages(integer, integer, integer, text);
-- Does: claims up to p_limit visible messages of a standard queue and hides them for p_visibility_timeout
--   seconds (null: the queue's). What has been received as often as the redrive policy allows goes to the
--   dead-letter queue instead, with a row of history. When there is none it gives one row without an id,
--   whose next_visible_in says how long until the next one becomes visible (null: none is). Of a queue whose messages have groups, those of noisy tenants come last (SQS Developer Guide, fair queues).
-- Called by: the ReceiveMessage action; SQL users.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: SQ005 when no queue has this incarnation, SQ007 when the queue is FIFO.
-- Relies on index: queue_id, message_visible, noisy_tenant_pkey.
--
-- What lies further back than the retention period is passed over by the index condition; an expired
-- message that became visible since is settled here, since only here it is met in order.
-- Nothing that is visible lies before p_floor (receive_floor says how that is known). The claim begins at
-- p_hint, where the last one ended (its `reached`), and looks from p_floor on only if that gave too little.
-- p_within bounds how far ahead next_visible_in looks: in-flight messages that were deleted lie there too.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.receive_messages(
  p_queue_id integer, p_limit integer default 1, p_visibility_timeout integer default null,
  p_commit text default null, p_floor timestamptz default null, p_hint timestamptz default null,
  p_within interval default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, next_visible_in interval, reached timestamptz
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
  v_timeout integer;
  v_horizon timestamptz;
  v_until timestamptz;
  v_floor timestamptz;
  v_from timestamptz;
  v_left integer := p_limit;
  v_got integer;
  v_most integer;
  v_dead_letters integer;
  v_tenants boolean;
  v_noisy text[];
  v_shard smallint;
  v_aside integer;
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  select
    q.fifo, coalesce(p_visibility_timeout, q.visibility_timeout), v_now - make_interval(secs => q.message_retention_period),
    -- Without a dead-letter queue, or when that has been deleted, nothing is received too often.
    case when d.queue_id is null then 2147483647 else q.max_receive_count end, d.queue_id,
    q.tenants, case when q.tenants then array(
      select t.group_id from skipmq.noisy_tenant t where t.queue_id = p_queue_id and t.until > v_now)
    end
  into v_fifo, v_timeout, v_horizon, v_most, v_dead_letters, v_tenants, v_noisy
  from skipmq.queue q
  left join skipmq.queue d on d.account = q.dead_letter_account and d.region = q.region
    and d.name = q.dead_letter_name and d.queue_id <> p_queue_id
  where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  elsif v_fifo then
    raise exception 'receive_messages is for standard queues' using errcode = 'SQ007';
  end if;
  if v_timeout < 5 then
    v_now := skipmq.write_time();
  end if;
  -- Never now itself: what this call has claimed must not be claimed again by its next round.
  v_until := v_now + greatest(make_interval(secs => v_timeout), interval '1 microsecond');

  -- Noisy tenants come last, but first in one receive of ten, so that they never starve.
  foreach v_shard in array
    case when not v_tenants then array[0] when random() < 0.9 then array[0, 1] else array[1, 0] end
  loop
    -- What is set aside keeps its order: that shard has no floor. A floor ahead: the clock was put back.
    v_floor := greatest(v_horizon, case when v_shard = 0 and p_floor <= v_now then p_floor end);
    v_from := greatest(v_floor, case when v_shard = 0 and p_hint <= v_now then p_hint end);
    v_aside := 0;
    loop
      return query
      with candidate as materialized (
        select m.ctid as tid, m.visible_at, m.enqueued_at, m.group_id, m.receive_count - m.receive_base as received
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = v_shard and m.group_no is null
          and m.visible_at >= v_from and m.visible_at <= v_now
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
        and (v_shard = 1 or c.group_id = any (v_noisy) is not true)
      returning
        m.id, m.receive_count, v_now, m.message_id, m.body, m.attributes,
        m.receive_count - m.receive_base, m.sent_at, m.first_received_at, m.group_id, m.sender,
        m.trace_header, m.dead_letter_source, null::interval, case when v_shard = 0 then c.visible_at end;
      get diagnostics v_got = row_count;
      v_left := v_left - v_got;
      exit when v_left = 0;
      if v_from > v_floor then
        v_from := v_floor;
        continue;
      end if;
      -- Too few: the shard is empty, or what has expired, was received too often or is noisy lay in the way.
      if v_shard = 0 and v_noisy <> '{}' and v_aside < 3 then
        v_aside := v_aside + 1;
        continue when skipmq.set_aside(p_queue_id, v_noisy, v_now, 1000) > 0;
      end if;
      exit when skipmq.expire_visible(p_queue_id, v_shard, v_from, v_now, v_horizon, 1000) = 0
        and (v_dead_letters is null or skipmq.move_dead_letters(
          p_queue_id, v_shard, v_dead_letters, v_most, v_from, v_now, 1000) = 0);
    end loop;
    exit when v_left = 0;
  end loop;

  if v_left = p_limit then
    received_at := v_now;
    next_visible_in := (
      select min(n.visible_at)
      from unnest(case when v_tenants then array[0, 1] else array[0] end) s (shard)
      cross join lateral (
        select m.visible_at
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
          and m.visible_at > v_now and m.visible_at <= v_now + coalesce(p_within, interval '20 years')
        order by m.visible_at
        limit 1
      ) n) - v_now;
    return next;
  end if;
end $$;
-- Does: stores messages in a standard queue: all of them, or none when it raises.
-- Called by: the SendMessage and SendMessageBatch actions, send_message; SQL users.
-- Locks, in order: queue row, only with the first message that has a group.
-- Raises: SQ005 when no queue has this incarnation, SQ007 when the queue is FIFO.
-- Relies on index: queue_id, noisy_tenant_pkey.
--
-- The arrays run in parallel, one element a message. A null in p_delays takes the queue's delay.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create or replace function skipmq.send_messages(
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
  v_now timestamptz := skipmq.write_time();
  v_fifo boolean;
  v_delay integer;
  v_tenants boolean;
  v_noisy text[];
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  select
    q.fifo, q.delay_seconds, q.tenants,
    case when q.tenants then array(
      select t.group_id from skipmq.noisy_tenant t where t.queue_id = p_queue_id and t.until > v_now)
    end
  into v_fifo, v_delay, v_tenants, v_noisy
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  elsif v_fifo then
    raise exception 'send_messages is for standard queues' using errcode = 'SQ007';
  end if;
  if not v_tenants and array_remove(p_group_ids, null) <> '{}' then
    update skipmq.queue q set tenants = true where q.queue_id = p_queue_id and not q.tenants;
  end if;
  insert into skipmq.message (
    id, visible_at, sent_at, enqueued_at, queue_id, shard, message_id, group_id, sender, trace_header, attributes, body)
  select
    nextval('skipmq.message_id_seq'),
    v_now + make_interval(secs => greatest(coalesce(u.delay, v_delay), 0)),
    v_now, v_now, p_queue_id, case when u.group_id = any (v_noisy) then 1 else 0 end, u.message_id, u.group_id, p_sender, u.trace_header, u.attributes, u.body
  from unnest(p_message_ids, p_bodies, p_attributes, p_delays, p_group_ids, p_trace_headers)
    u (message_id, body, attributes, delay, group_id, trace_header);
  insert into skipmq.queue_delta (at, queue_id, change)
  values (v_now, p_queue_id, cardinality(p_message_ids));
end $$;
-- Does: changes the attributes named in p_attributes (SQS names, text values); others stay.
-- Called by: create_queue, the SetQueueAttributes action; SQL users.
-- Locks, in order: queue row of the dead-letter queue (shared), queue row, group rows.
-- Raises: SQ005 when no queue has this incarnation, SQ006 when there is no attribute of a name, SQ008 when
--   a redrive policy names a queue that is not there or does not allow it, 23514 when a value is out of
--   its range.
-- Relies on index: queue_id, message_group_available.
create or replace function skipmq.set_queue_attributes(p_queue_id integer, p_attributes jsonb) returns void
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
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;
  if v_queue.fifo and p_attributes ? 'DelaySeconds' then
    -- It applies to what waits as well: let the next receive look at all groups anew.
    update skipmq.message_group g set available_at = skipmq.clock()
    where g.queue_id = p_queue_id and g.available_at > skipmq.clock();
  end if;
end $$;
-- Does: gives the clock's time to a transaction that is about to write it, once it has a number. So that
--   whoever sees that all numbers up to his own are done knows that no time before his is still to come:
--   receive_floor stands on it.
-- Called by: every function that makes a message visible, now or soon.
-- Locks, in order: none.
-- Raises: as clock.
-- Relies on index: none.
create function skipmq.write_time() returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_current_xact_id();
  return skipmq.clock();
end $$;
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
      skipmq.move_dead_letters(integer, smallint, integer, integer, timestamptz, timestamptz, integer),
      skipmq.expire_visible(integer, smallint, timestamptz, timestamptz, timestamptz, integer),
      skipmq.set_aside(integer, text[], timestamptz, integer),
      skipmq.expire_fifo(integer, timestamptz, integer),
      skipmq.move_fifo_batch(integer, integer, integer),
      skipmq.append_fifo(integer, bigint[], integer[], text),
      skipmq.clear_group(integer, bigint, timestamptz, timestamptz, integer, integer),
      skipmq.lock_groups(integer, bigint[]),
      skipmq.refresh_groups(integer, bigint[]),
      skipmq.check_message(integer, text, jsonb)
      from skipmq_node;
  end if;
  if exists (select from pg_roles where rolname = 'skipmq_reader') then
    grant usage on schema skipmq to skipmq_reader;
  end if;
end $$;
