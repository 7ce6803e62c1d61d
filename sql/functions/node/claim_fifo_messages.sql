-- Does: claims messages of a FIFO queue for several receives, up to p_limits for each, and hides them and their groups for
--   p_visibility_timeout seconds (null: the queue's); the groups keep the time and the receive's element of p_receivers. Each receive
--   takes messages, in order, from the group available longest, then from the next one; no two share a group. A group yields
--   the messages before its first that is in flight or delayed. Those expired or received too often are settled on the way, within
--   a fixed effort. A receive without messages gets one row without an id. Groups in p_closed yield nothing, others p_rooms or p_room.
-- Called by: the ReceiveMessage action, receive_fifo_messages, receive_from_fifo_queues.
-- Locks, in order: those of claim_limited_groups; group rows, skipping locked ones; message rows, and those of clear_groups.
-- Raises: what claim_limited_groups raises; SQ005 when the generation does not exist, SQ007 when the queue is not FIFO.
-- Relies on index: queue_id, message_group_available, message_group_order.
-- Routed: to the partition of p_queue_id.
create function skipmq.claim_fifo_messages(
  p_queue_id bigint, p_limits integer[], p_visibility_timeout integer default null, p_commit text default null,
  p_receivers text[] default null, p_closed bigint[] default null, p_groups bigint[] default null, p_rooms integer[] default null, p_room integer default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz, first_received_at timestamptz, group_id text,
  sender text, trace_header text, dead_letter_source text, arrival_count integer,
  sequence_number bigint, deduplication_id text, next_visible_in interval, place integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_fifo boolean; v_paused boolean; v_limited boolean;
  v_now timestamptz := skipmq.clock(); v_until timestamptz; v_horizon timestamptz; v_delay interval;
  v_max_receives integer; v_backoff jsonb; v_dead_letter_queue bigint;
  v_slots integer[] := '{}'; -- For each message requested, the place of its receive.
  v_groups bigint[]; v_firsts bigint[]; v_filled integer := 0;
  v_largest_limit integer := 0; v_width integer := 0; -- Initially one group for each receive.
  -- The messages that the groups yield, with the places of their groups and of the receives that get them.
  v_tids tid[]; v_sources integer[]; v_places integer[];
  v_yield integer; v_cut integer; -- A group whose remaining messages stay, since the receive that has its first ones is full.
  v_effort integer := 5000; -- One for a message cleared, five for a group without a message.
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  select
    q.fifo, v_now - make_interval(secs => q.message_retention_period), make_interval(secs => q.delay_seconds),
    v_now + greatest(make_interval(secs => coalesce(p_visibility_timeout, q.visibility_timeout)), interval '1 microsecond'),
    q.max_receive_count, nullif(q.retry_backoff, '')::jsonb, q.paused, q.limited
  into v_fifo, v_horizon, v_delay, v_until, v_max_receives, v_backoff, v_paused, v_limited
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is distinct from true then
    perform skipmq.check_generation(p_queue_id, true);
  end if;
  if v_limited and p_closed is null and not v_paused then
    return query select c.* from skipmq.claim_limited_groups(p_queue_id, p_limits, p_visibility_timeout, p_commit, p_receivers) c;
    return;
  end if;
  if v_max_receives is not null then
    v_dead_letter_queue := skipmq.dead_letter_queue(p_queue_id);
  end if;
  v_max_receives := case when v_dead_letter_queue is null then 2147483647 else v_max_receives end;
  for n in 1 .. cardinality(p_limits) loop
    v_slots := v_slots || array_fill(n, array[p_limits[n]]);
    v_largest_limit := greatest(v_largest_limit, p_limits[n]);
    v_width := v_width + least(p_limits[n], 1);
  end loop;

  while not v_paused and v_filled < cardinality(v_slots) loop
    -- A separate statement, so that the next one sees the current messages of these groups.
    select array_agg(h.group_no), array_agg(h.first_number) into v_groups, v_firsts
    from (
      select g.group_no, g.first_number, g.available_at
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.available_at > '-infinity' and g.available_at <= v_now
        and g.group_no = any (p_closed) is not true
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
        m.enqueued_at > v_horizon
        and least(m.receive_count, 2147483646) - m.receive_base - coalesce(m.arrival_count, 0) < v_max_receives
        and case when m.receive_count = m.receive_base then m.visible_at + v_delay else m.visible_at end <= v_now
      ) over (order by m.sequence_number) as ready
      from (
        select m.ctid, m.sequence_number, m.enqueued_at, m.receive_count, m.receive_base, m.arrival_count, m.visible_at
        from skipmq.message m
        where m.queue_id = p_queue_id and m.group_no = h.group_no and m.sequence_number >= h.first_number
        order by m.sequence_number
        limit least(v_largest_limit, coalesce(p_rooms[array_position(p_groups, h.group_no)], p_room))
      ) m
    ) l
    where l.ready;

    v_places := '{}';
    v_cut := 0;
    v_yield := v_filled;
    for n in 1 .. cardinality(v_tids) loop
      continue when v_sources[n] = v_cut;
      exit when v_filled = cardinality(v_slots);
      v_filled := v_filled + 1;
      v_places[n] := v_slots[v_filled];
      if v_slots[v_filled + 1] is distinct from v_slots[v_filled] then
        v_cut := v_sources[n];
      end if;
    end loop;
    v_yield := v_filled - v_yield;
    return query
    with claimed as (
      update skipmq.message m set
        visible_at = case when v_backoff is null then v_until else v_until + skipmq.retry_delay(v_backoff, m.receive_count - m.receive_base + 1) end,
        receive_count = least(m.receive_count, 2147483645) + 1,
        receive_base = least(m.receive_base, 2147483645),
        first_received_at = coalesce(m.first_received_at, v_now)
      from unnest(v_tids, v_places) with ordinality h (tid, place, n)
      where m.ctid = h.tid and h.place is not null
      returning m.*, h.place, h.n
    ), hidden as (
      update skipmq.message_group g set available_at = v_until, received_at = v_now, receiver = p_receivers[c.place]
      from (select distinct c.group_no, c.place from claimed c) c
      where g.queue_id = p_queue_id and g.group_no = c.group_no
    )
    select
      c.id, c.receive_count, v_now, c.message_id, c.body, c.attributes, c.receive_count - c.receive_base, c.sent_at,
      c.first_received_at, c.group_id, c.sender, c.trace_header, c.dead_letter_source, c.arrival_count, c.sequence_number,
      c.deduplication_id, null::interval, c.place
    from claimed c
    order by c.n;
    exit when v_filled = cardinality(v_slots);
    v_effort := v_effort - skipmq.clear_groups(p_queue_id, v_groups, v_now, v_horizon, v_max_receives, v_dead_letter_queue);
    exit when v_effort <= 0;
    -- The number of groups needed at the yield so far; few more, since other receives could use them.
    v_width := least(
      cardinality(v_slots) - v_filled, 2 * cardinality(v_groups) + 10,
      (cardinality(v_slots) - v_filled) * cardinality(v_groups) / greatest(v_yield, 1) + 1);
  end loop;

  if v_filled < cardinality(v_slots) then
    next_visible_in := case when v_effort <= 0 then interval '0' when not v_paused then (
      select min(g.available_at) from skipmq.message_group g where g.queue_id = p_queue_id and g.available_at > v_now
    ) - v_now end;
    received_at := v_now;
    for n in coalesce(v_slots[v_filled], 0) + 1 .. cardinality(p_limits) loop
      continue when p_limits[n] = 0;
      place := n;
      return next;
    end loop;
  end if;
end $$;
