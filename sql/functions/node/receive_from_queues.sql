-- Does: claims messages of several standard queues in one statement, for each place in the arrays as receive_messages does: up
--   to its limit, with its timeout and bounds. A place without a message gets one row without an id, as there; its
--   received_at is null when the queue's generation does not exist, or is that of a FIFO queue. A queue may have several places.
--   A place with messages that then took long has such a row, too, with the place negated: received_at shows when its turn came.
-- Called by: the ReceiveMessage action, when requests for several queues run together.
-- Locks, in order: message rows, skipping locked ones; those of receive_messages, queue by queue.
-- Raises: nothing.
-- Relies on index: queue_id, message_visible.
-- Routed: not: nodes run it on the partition of the queues.
--
-- p_quick_starts has the time from which a queue can be scanned for messages never received, if it is likely to have as many
-- as the claim may take: they are claimed together, at a third of the cost. All others, limited queues, second places of a queue, places with a
-- timeout below 5 seconds, and what is missing then, are left to receive_messages. p_held and p_held_lows have the elements of all places, those of each up to its p_held_ends.
create function skipmq.receive_from_queues(
  p_queue_ids bigint[], p_limits integer[], p_visibility_timeouts integer[], p_commit text,
  p_low_watermarks timestamptz[], p_scan_starts timestamptz[], p_quick_starts timestamptz[], p_within interval,
  p_held bigint[], p_held_lows bigint[], p_held_ends integer[], p_received_lows timestamptz[]
) returns table (
  place integer, id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz, first_received_at timestamptz, group_id text,
  sender text, trace_header text, dead_letter_source text, arrival_count integer, next_visible_in interval, scan_start timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.write_time();
  v_tids tid[]; v_places integer[]; v_visible timestamptz[]; v_until timestamptz[];
  v_found integer[] := array_fill(0, array[cardinality(p_queue_ids)]);
  v_place integer;
  v_held_from integer;
begin
  p_commit := set_config('synchronous_commit', p_commit, true);
  select array_agg(c.tid), array_agg(a.place), array_agg(c.visible_at), array_agg(a.until)
  into v_tids, v_places, v_visible, v_until
  from (
    select u.place::integer as place, q.queue_id, u.most, greatest(u.quick_start, h.horizon) as low, h.horizon,
      coalesce(q.max_receive_count, 2147483647) as max_receives,
      v_now + make_interval(secs => t.timeout) as until
    from unnest(p_queue_ids, p_limits, p_visibility_timeouts, p_quick_starts) with ordinality
      u (queue_id, most, timeout, quick_start, place)
    cross join lateral (select q.* from skipmq.queue q where q.queue_id = u.queue_id limit 1) q
    cross join lateral (select v_now - make_interval(secs => q.message_retention_period) as horizon) h
    cross join lateral (select coalesce(u.timeout, q.visibility_timeout) as timeout) t
    -- With a short timeout, receive_messages could claim the same messages again.
    where t.timeout >= 5 and u.quick_start <= v_now and not q.fifo and not q.paused and not q.tenants and not q.limited and q.retry_backoff = ''
      and u.place = array_position(p_queue_ids, u.queue_id)
  ) a
  cross join lateral (
    select m.ctid as tid, m.visible_at, m.enqueued_at,
      least(m.receive_count, 2147483646) - m.receive_base - coalesce(m.arrival_count, 0) as received
    from skipmq.message m
    where m.queue_id = a.queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at >= a.low and m.visible_at <= v_now
    order by m.visible_at limit a.most
    for no key update skip locked
  ) c
  where c.enqueued_at > a.horizon and c.received < a.max_receives;

  if v_tids is not null then
    return query
    update skipmq.message m set
      visible_at = c.until, shard = 2,
      receive_count = least(m.receive_count, 2147483645) + 1,
      receive_base = least(m.receive_base, 2147483645),
      first_received_at = coalesce(m.first_received_at, v_now)
    from unnest(v_tids, v_places, v_visible, v_until) c (tid, place, visible_at, until)
    where m.ctid = c.tid
    returning
      c.place, m.id, m.receive_count, v_now, m.message_id, m.body, m.attributes,
      m.receive_count - m.receive_base, m.sent_at, m.first_received_at, m.group_id, m.sender,
      m.trace_header, m.dead_letter_source, m.arrival_count, null::interval, c.visible_at;
    foreach v_place in array v_places loop
      v_found[v_place] := v_found[v_place] + 1;
    end loop;
  end if;

  for v_place in 1 .. cardinality(p_queue_ids) loop
    continue when v_found[v_place] = p_limits[v_place];
    if not exists (select from skipmq.queue q where q.queue_id = p_queue_ids[v_place] and not q.fifo) then
      place := v_place;
      return next;
      continue;
    end if;
    v_held_from := case when v_place = 1 then 1 else p_held_ends[v_place - 1] + 1 end;
    return query
    select case when r.id is null and v_found[v_place] > 0 then -v_place else v_place end, r.*
    from skipmq.receive_messages(
      p_queue_ids[v_place], p_limits[v_place] - v_found[v_place], p_visibility_timeouts[v_place], p_commit,
      p_low_watermarks[v_place], p_scan_starts[v_place], p_within, p_held[v_held_from:p_held_ends[v_place]],
      p_held_lows[v_held_from:p_held_ends[v_place]], p_received_lows[v_place]) r
    where r.id is not null or v_found[v_place] = 0 or skipmq.clock() - r.received_at > interval '50 ms';
  end loop;
end $$;
