-- What the schema gains for failovers: sends that can be tried again, and queues that ask for more servers.
-- Nodes of the release before call the new functions as they called the old.
set local check_function_bodies = off;

alter table skipmq.queue drop constraint queue_replication_mode_check;
alter table skipmq.queue add constraint queue_replication_mode_check
  check (replication_mode in ('none', 'any', 'majority', 'all'));

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
        and (r.received_at is null or m.first_received_at <= r.received_at)
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
drop function skipmq.delete_fifo_messages(integer, bigint[], integer[], text);
-- Does: deletes messages of a FIFO queue that are still in flight by the receive named by
--   p_receive_counts, with a row of history each, and says for each by its place in the arrays: deleted,
--   missing (settled before, or purged) or expired (visible again, or received since).
-- Called by: the DeleteMessage and DeleteMessageBatch actions; SQL users.
-- Locks, in order: group rows by number, message rows by id.
-- Raises: SQ005 when no queue has this incarnation.
-- Relies on index: message_pkey, queue_id, and those of lock_groups and refresh_groups.
--
-- p_received_at is the time of the receive that the receipt stands for (null: not checked); delete_messages
-- says why.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.delete_fifo_messages(
  p_queue_id integer, p_ids bigint[], p_receive_counts integer[], p_commit text default null,
  p_received_at timestamptz[] default null
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
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_groups bigint[];
  v_outcomes text[];
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  v_groups := skipmq.lock_groups(p_queue_id, p_ids);
  select array_agg(
    case
      when m.queue_id = p_queue_id and m.receive_count = u.receive_count and m.visible_at > v_now
        and (u.received_at is null or m.first_received_at <= u.received_at) then 'deleted'
      when exists (select from skipmq.queue q where q.queue_id = m.queue_id) then 'expired'
      -- Settled, or purged and not cleared yet.
      else 'missing'
    end order by u.place)
  into v_outcomes
  from unnest(p_ids, p_receive_counts, p_received_at) with ordinality u (id, receive_count, received_at, place)
  left join lateral (
    select m.id, m.queue_id, m.receive_count, m.visible_at, m.first_received_at from skipmq.message m where m.id = u.id
  ) m on true;
  perform skipmq.delete_messages(
    p_queue_id,
    array(select u.id from unnest(p_ids, v_outcomes) with ordinality u (id, outcome, place)
      where u.outcome = 'deleted' order by u.place),
    array(select u.receive_count from unnest(p_receive_counts, v_outcomes) with ordinality u (receive_count, outcome, place)
      where u.outcome = 'deleted' order by u.place));
  perform skipmq.refresh_groups(p_queue_id, v_groups);
  return query
  select u.place, u.outcome from unnest(v_outcomes) with ordinality u (outcome, place) order by u.place;
end $$;
drop function skipmq.delete_messages(integer, bigint[], integer[], text);
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
-- p_received_at is the time of the receive that the receipt stands for (null: not checked). A server that lost
-- messages gives their ids again: what was first received after that time is another message.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.delete_messages(
  p_queue_id integer, p_ids bigint[], p_receive_counts integer[], p_commit text default null,
  p_received_at timestamptz[] default null
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
    select u.id, u.receive_count, u.received_at
    from unnest(p_ids, p_receive_counts, p_received_at) u (id, receive_count, received_at)
    order by u.id
  ), gone as (
    delete from skipmq.message m
    using receipt r
    where m.id = r.id and m.receive_count = r.receive_count and m.queue_id = p_queue_id
      and (r.received_at is null or m.first_received_at <= r.received_at)
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
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change) values (v_now, p_queue_id, -v_count);
  end if;
  return v_count;
end $$;
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
create or replace function skipmq.receive_messages(
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
  v_rounds integer := 0;
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
      -- However many lie there, a call ends soon: the next one goes on.
      v_rounds := v_rounds + 1;
      exit when v_rounds > 10 or skipmq.expire_visible(p_queue_id, v_shard, v_from, v_now, v_horizon, 1000) = 0
        and (v_dead_letters is null or skipmq.move_dead_letters(
          p_queue_id, v_shard, v_dead_letters, v_most, v_from, v_now, 1000) = 0);
    end loop;
    exit when v_left = 0;
  end loop;

  if v_left = p_limit then
    received_at := v_now;
    next_visible_in := case when v_rounds > 10 then interval '0' else (
      select min(n.visible_at)
      from unnest(case when v_tenants then array[0, 1] else array[0] end) s (shard)
      cross join lateral (
        select m.visible_at
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
          and m.visible_at > v_now and m.visible_at <= v_now + coalesce(p_within, interval '20 years')
        order by m.visible_at
        limit 1
      ) n) - v_now end;
    return next;
  end if;
end $$;
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
drop function skipmq.send_messages(integer, uuid[], text[], text[], integer[], text[], text[], text, text);
-- Does: stores messages in a standard queue: all of them, or none when it raises.
-- Called by: the SendMessage and SendMessageBatch actions, send_message; SQL users.
-- Locks, in order: advisory lock of the first message id, queue row, only with the first message that has a
--   group.
-- Raises: SQ005 when no queue has this incarnation, SQ007 when the queue is FIFO.
-- Relies on index: queue_id, noisy_tenant_pkey, message_visible.
--
-- The arrays run in parallel, one element a message. A null in p_delays takes the queue's delay.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
-- p_again is for a send that may have been done within that time: nothing is stored when one of its messages
-- is there. The lock waits for that send, which may be committed and wait for a standby: nobody sees it then.
-- What was received and deleted since is not known, and stored a second time.
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
  perform pg_advisory_xact_lock(uuid_hash_extended(p_message_ids[1], 0));
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
  if p_again is not null and exists (
    select from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = any ('{0,1}') and m.group_no is null
      and m.visible_at >= v_now - p_again and m.message_id = any (p_message_ids)
  ) then
    -- A row, so that this commit waits for the standbys that the one before may not have waited for.
    insert into skipmq.queue_delta (at, queue_id, change) values (v_now, p_queue_id, 0);
    return;
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
