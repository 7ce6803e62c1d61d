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
