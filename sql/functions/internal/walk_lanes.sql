-- Does: returns the first p_limit visible messages of each group of a limited queue that is not in p_full, lane by lane; of up
--   to 5,000 groups a lane, by name, after p_after.
-- Called by: claim_limited_messages, where the first messages of a lane are those of groups that are full.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_lane.
create function skipmq.walk_lanes(
  p_queue_id bigint, p_lanes smallint[], p_now timestamptz, p_full text[], p_limit integer, p_after text
) returns table (place bigint, tid tid, group_id text, visible_at timestamptz, enqueued_at timestamptz, received integer)
language sql volatile
as $$
  with recursive walk as (
    select l.place, l.lane, 0 as n, p_after as group_id
    from unnest(p_lanes) with ordinality l (lane, place)
    union all
    select w.place, w.lane, w.n + 1, g.group_id
    from walk w
    cross join lateral (
      select m.group_id
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = w.lane and m.shard >= 10 and m.group_id > w.group_id
      order by m.group_id limit 1
    ) g
    where w.n < 5000
  )
  select w.place, h.*
  from walk w
  cross join lateral (
    select m.ctid, m.group_id, m.visible_at, m.enqueued_at,
      least(m.receive_count, 2147483646) - m.receive_base - coalesce(m.arrival_count, 0)
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = w.lane and m.shard >= 10 and m.group_id = w.group_id
      and m.visible_at <= p_now
    order by m.visible_at limit p_limit
  ) h
  where w.n > 0 and w.group_id = any (p_full) is not true
  union all
  select l.place, h.*
  from unnest(p_lanes) with ordinality l (lane, place)
  cross join lateral (
    select m.ctid, m.group_id, m.visible_at, m.enqueued_at,
      least(m.receive_count, 2147483646) - m.receive_base - coalesce(m.arrival_count, 0)
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = l.lane and m.shard >= 10 and m.group_id is null and m.visible_at <= p_now
    order by m.visible_at limit p_limit
  ) h
$$;
