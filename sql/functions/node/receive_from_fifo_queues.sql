-- Does: claims messages of several FIFO queues in one statement, for each share as claim_fifo_messages does: a share is a queue, a
--   visibility timeout (null: the queue's), and receives with the limits up to its p_ends. A receive without messages gets one row
--   without an id, as there; its received_at is null when the queue's generation does not exist, or is that of a standard queue.
--   A queue may have several shares. One with messages that then took long has such a row, too, with the
--   share negated: received_at shows when its turn came.
-- Called by: the ReceiveMessage action, when requests for several queues run together.
-- Locks, in order: group rows, skipping locked ones; message rows; those of claim_fifo_messages, share by share.
-- Raises: nothing.
-- Relies on index: queue_id, message_group_available, message_group_order.
-- Routed: not: nodes run it on the partition of the queues.
--
-- Each receive gets the messages of one group of its own, all queues together, at a third of the cost. Receives that then lack
-- some, second shares of a queue, and shares with a timeout below 5 seconds are left to claim_fifo_messages.
create function skipmq.receive_from_fifo_queues(
  p_queue_ids bigint[], p_limits integer[], p_ends integer[], p_visibility_timeouts integer[], p_commit text, p_receivers text[] default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz, first_received_at timestamptz, group_id text,
  sender text, trace_header text, dead_letter_source text, arrival_count integer,
  sequence_number bigint, deduplication_id text, next_visible_in interval, place integer, share integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_queues bigint[]; v_groups bigint[]; v_firsts bigint[]; v_slots integer[]; -- The groups, and the receives that get them.
  v_empty bigint[]; v_next timestamptz[]; -- Shares of queues without an available group, and when the next one comes.
  v_tids tid[]; v_receives integer[]; v_until timestamptz[];
  v_left integer[] := p_limits;
  v_slot integer;
  v_first integer := 1;
begin
  p_commit := set_config('synchronous_commit', p_commit, true);
  select
    array_agg(h.queue_id) filter (where h.group_no is not null), array_agg(h.group_no) filter (where h.group_no is not null),
    array_agg(h.first_number) filter (where h.group_no is not null), array_agg(h.slot) filter (where h.group_no is not null),
    array_agg(h.share) filter (where h.group_no is null), array_agg(h.next) filter (where h.group_no is null)
  into v_queues, v_groups, v_firsts, v_slots, v_empty, v_next
  from (
    select a.share, g.queue_id, g.group_no, g.first_number,
      case when g.group_no is null then (
        select min(n.available_at) from skipmq.message_group n where n.queue_id = a.queue_id and n.available_at > v_now
      ) end as next,
      a.first + row_number() over (partition by a.share order by g.available_at)::integer as slot
    from (
      select u.share, u.queue_id, coalesce(p_ends[u.share - 1], 0) as first, u.last
      from unnest(p_queue_ids, p_ends, p_visibility_timeouts) with ordinality u (queue_id, last, timeout, share)
      cross join lateral (select q.* from skipmq.queue q where q.queue_id = u.queue_id limit 1) q
      -- With a short timeout, claim_fifo_messages could claim the same messages again.
      where q.fifo and not q.paused and not q.limited and q.retry_backoff = '' and coalesce(u.timeout, q.visibility_timeout) >= 5
        and u.share = array_position(p_queue_ids, u.queue_id)
    ) a
    left join lateral (
      select g.queue_id, g.group_no, g.first_number, g.available_at
      from skipmq.message_group g
      where g.queue_id = a.queue_id and g.available_at > '-infinity' and g.available_at <= v_now
      order by g.available_at
      limit a.last - a.first
      for no key update skip locked
    ) g on true
  ) h;
  -- A separate statement, so that it sees the current messages of these groups.
  select array_agg(l.tid order by h.slot, l.sequence_number), array_agg(h.slot order by h.slot, l.sequence_number),
    array_agg(h.until order by h.slot, l.sequence_number)
  into v_tids, v_receives, v_until
  from (
    select u.queue_id, u.group_no, u.first_number, u.slot, make_interval(secs => q.delay_seconds) as delay,
      v_now - make_interval(secs => q.message_retention_period) as horizon,
      coalesce(q.max_receive_count, 2147483647) as max_receives,
      v_now + make_interval(secs => coalesce(p_visibility_timeouts[array_position(p_queue_ids, u.queue_id)], q.visibility_timeout))
        as until
    from unnest(v_queues, v_groups, v_firsts, v_slots) u (queue_id, group_no, first_number, slot)
    cross join lateral (select q.* from skipmq.queue q where q.queue_id = u.queue_id limit 1) q
  ) h
  cross join lateral (
    select m.ctid as tid, m.sequence_number, bool_and(
      m.enqueued_at > h.horizon
      and least(m.receive_count, 2147483646) - m.receive_base - coalesce(m.arrival_count, 0) < h.max_receives
      and case when m.receive_count = m.receive_base then m.visible_at + h.delay else m.visible_at end <= v_now
    ) over (order by m.sequence_number) as ready
    from (
      select m.ctid, m.sequence_number, m.enqueued_at, m.receive_count, m.receive_base, m.arrival_count, m.visible_at
      from skipmq.message m
      where m.queue_id = h.queue_id and m.group_no = h.group_no and m.sequence_number >= h.first_number
      order by m.sequence_number
      limit p_limits[h.slot]
    ) m
  ) l
  where l.ready;

  if v_tids is not null then
    return query
    with claimed as (
      update skipmq.message m set
        visible_at = h.until,
        receive_count = least(m.receive_count, 2147483645) + 1,
        receive_base = least(m.receive_base, 2147483645),
        first_received_at = coalesce(m.first_received_at, v_now)
      from unnest(v_tids, v_receives, v_until) with ordinality h (tid, slot, until, n)
      where m.ctid = h.tid
      returning m.*, h.slot, h.n
    ), hidden as (
      update skipmq.message_group g set available_at = c.visible_at, received_at = v_now, receiver = p_receivers[c.slot]
      from (select distinct c.queue_id, c.group_no, c.visible_at, c.slot from claimed c) c
      where g.queue_id = c.queue_id and g.group_no = c.group_no
    )
    select
      c.id, c.receive_count, v_now, c.message_id, c.body, c.attributes, c.receive_count - c.receive_base, c.sent_at,
      c.first_received_at, c.group_id, c.sender, c.trace_header, c.dead_letter_source, c.arrival_count, c.sequence_number,
      c.deduplication_id, null::interval, c.slot - coalesce(p_ends[s.share - 1], 0), s.share
    from claimed c
    cross join lateral (
      select min(e.share)::integer as share from unnest(p_ends) with ordinality e (last, share) where e.last >= c.slot
    ) s
    order by c.n;
    foreach v_slot in array v_receives loop
      v_left[v_slot] := v_left[v_slot] - 1;
    end loop;
  end if;

  for v_share in 1 .. cardinality(p_queue_ids) loop
    if 0 = all (v_left[v_first:p_ends[v_share]]) then
      v_first := p_ends[v_share] + 1;
      continue;
    elsif v_share = any (v_empty)
      or not exists (select from skipmq.queue q where q.queue_id = p_queue_ids[v_share] and q.fifo)
    then
      received_at := case when v_share = any (v_empty) then v_now end;
      next_visible_in := v_next[array_position(v_empty, v_share::bigint)] - v_now;
      share := v_share;
      for n in v_first .. p_ends[v_share] loop
        continue when p_limits[n] = 0;
        place := n - v_first + 1;
        return next;
      end loop;
    else
      return query
      select r.*, case
        when r.id is null and v_left[v_first + r.place - 1] < p_limits[v_first + r.place - 1] then -v_share else v_share end
      from skipmq.claim_fifo_messages(
        p_queue_ids[v_share], v_left[v_first:p_ends[v_share]], p_visibility_timeouts[v_share], p_commit,
        p_receivers[v_first:p_ends[v_share]]) r
      where r.id is not null or v_left[v_first + r.place - 1] = p_limits[v_first + r.place - 1]
        or skipmq.clock() - r.received_at > interval '50 ms';
    end if;
    v_first := p_ends[v_share] + 1;
  end loop;
end $$;
