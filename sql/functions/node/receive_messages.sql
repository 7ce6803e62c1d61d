-- Does: claims up to p_limit visible messages of a standard queue and hides them for p_visibility_timeout seconds (null: the
--   queue's). Messages that reached the redrive policy's receive count move to the dead-letter queue instead. Without a
--   message it returns one row without an id, whose next_visible_in is the time until the next message becomes visible (null:
--   there is none, or the queue is paused). Messages received before come first, since they were sent earlier; those of noisy
--   tenants come last (SQS Developer Guide, fair queues).
-- Called by: the ReceiveMessage action; SQL users.
-- Locks, in order: those of claim_limited_messages; message rows, skipping locked ones; those of clear_head.
-- Raises: what claim_limited_messages raises; SQ005 when the generation does not exist, SQ007 when the queue is FIFO; what check_receive raises.
-- Relies on index: queue_id, message_visible, noisy_tenant_pkey.
-- Routed: to the partition of p_queue_id.
--
-- No visible message precedes p_low_watermark (low_watermark explains why). The claim starts at p_scan_start, where the
-- last one ended (the last row's scan_start), and repeats from p_low_watermark when that yields too few. In shard 2, of
-- messages received before, none precedes p_received_low; a claim with p_scan_start reads that shard last. Both bounds
-- hold while all transactions in p_held are open; once one has ended, scan_from returns the bound.
-- Messages past retention are excluded by the index condition. p_within limits how far ahead next_visible_in reads: index
-- entries of deleted in-flight messages are there too. p_commit sets synchronous_commit for the rest of the transaction;
-- null, for SQL users, leaves it unchanged and checks limit and timeout.
create function skipmq.receive_messages(
  p_queue_id bigint, p_limit integer default 1, p_visibility_timeout integer default null,
  p_commit text default null, p_low_watermark timestamptz default null, p_scan_start timestamptz default null,
  p_within interval default null, p_held bigint[] default null, p_held_low bigint[] default null,
  p_received_low timestamptz default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz, first_received_at timestamptz, group_id text,
  sender text, trace_header text, dead_letter_source text, arrival_count integer, next_visible_in interval, scan_start timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_fifo boolean; v_tenants boolean; v_limited boolean;
  v_timeout integer; v_max_receives integer;
  v_horizon timestamptz; v_until timestamptz; v_backoff jsonb;
  v_dead_letter_queue bigint;
  v_noisy text[];
  v_shard smallint; v_shards smallint[] := case when p_scan_start is null then '{2,0}' else '{0,2}' end;
  v_low timestamptz; v_from timestamptz;
  v_left integer; v_got integer; v_rounds integer := 0;
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  else
    p_limit := skipmq.check_receive(p_limit, p_visibility_timeout);
  end if;
  v_left := p_limit;
  select
    q.fifo, coalesce(p_visibility_timeout, q.visibility_timeout),
    v_now - make_interval(secs => q.message_retention_period), q.max_receive_count,
    nullif(q.retry_backoff, '')::jsonb, q.tenants and not q.paused, case when q.paused then '{}' else v_shards end, q.limited and not q.paused
  into v_fifo, v_timeout, v_horizon, v_max_receives, v_backoff, v_tenants, v_shards, v_limited
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is distinct from false then
    perform skipmq.check_generation(p_queue_id, false);
  end if;
  if v_max_receives is not null then
    -- Without a dead-letter queue, or when that was deleted, the number of receives is unlimited.
    v_dead_letter_queue := skipmq.dead_letter_queue(p_queue_id);
  end if;
  v_max_receives := case when v_dead_letter_queue is null then 2147483647 else v_max_receives end;
  if v_limited then
    return query select c.* from skipmq.claim_limited_messages(
      p_queue_id, p_limit, v_timeout, v_dead_letter_queue, v_max_receives, p_commit is null, p_within) c;
    return;
  end if;
  if v_tenants then
    v_noisy := array(select t.group_id from skipmq.noisy_tenant t where t.queue_id = p_queue_id and t.until > v_now);
    -- Noisy tenants come last, except in one of ten receives, so that they do not starve.
    v_shards := case when random() < 0.9 then v_shards || 1::smallint else 1::smallint || v_shards end;
  end if;
  v_now := case when v_timeout < 5 then skipmq.write_time() else v_now end;
  if p_held is not null then
    p_low_watermark := skipmq.scan_from(p_low_watermark, p_held, p_held_low);
    p_received_low := skipmq.scan_from(p_received_low, p_held, p_held_low);
  end if;
  -- Later than v_now, so that the next round does not claim the same messages again.
  v_until := v_now + greatest(make_interval(secs => v_timeout), interval '1 microsecond');

  foreach v_shard in array v_shards loop
    -- Deprioritised messages keep their time, so shard 1 has no watermark. A watermark ahead of now: the clock was set back.
    v_from := case v_shard when 0 then p_low_watermark when 2 then p_received_low end;
    v_low := greatest(v_horizon, case when v_from <= v_now then v_from end);
    v_from := greatest(v_low, case when v_shard = 0 and p_scan_start <= v_now then p_scan_start end);
    if v_shard = 2 then
      -- Usually the shard is empty, which a probe detects at less cost than a claim.
      perform from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = 2 and m.group_no is null
        and m.visible_at >= v_low and m.visible_at <= v_now
      order by m.visible_at limit 1;
      continue when not found;
    end if;
    loop
      return query
      with candidate as materialized (
        select m.ctid as tid, m.visible_at, m.enqueued_at, m.group_id,
          least(m.receive_count, 2147483646) - m.receive_base - coalesce(m.arrival_count, 0) as received
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = v_shard and m.group_no is null
          and m.visible_at >= v_from and m.visible_at <= v_now
        order by m.visible_at limit v_left
        for no key update skip locked
      )
      update skipmq.message m set
        visible_at = case when v_backoff is null then v_until else v_until + skipmq.retry_delay(v_backoff, m.receive_count - m.receive_base + 1) end,
        shard = case v_shard when 0 then 2 else v_shard end,
        receive_count = least(m.receive_count, 2147483645) + 1,
        receive_base = least(m.receive_base, 2147483645),
        first_received_at = coalesce(m.first_received_at, v_now)
      from candidate c
      where m.ctid = c.tid and c.enqueued_at > v_horizon and c.received < v_max_receives
        and (v_shard <> 0 or c.group_id = any (v_noisy) is not true)
      returning
        m.id, m.receive_count, v_now, m.message_id, m.body, m.attributes,
        m.receive_count - m.receive_base, m.sent_at, m.first_received_at, m.group_id, m.sender,
        m.trace_header, m.dead_letter_source, m.arrival_count, null::interval, case when v_shard = 0 then c.visible_at end;
      get diagnostics v_got = row_count;
      v_left := v_left - v_got;
      exit when v_left = 0;
      if v_from > v_low then
        v_from := v_low;
        continue;
      end if;
      -- Too few: the shard is empty, or its head is expired, was received too often or is noisy. The number of rounds is
      -- limited, so that a call ends soon; the next one continues.
      v_rounds := v_rounds + 1;
      exit when v_rounds > 10 or skipmq.clear_head(
        p_queue_id, v_shard, v_from, v_now, v_horizon, v_dead_letter_queue, v_max_receives,
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
