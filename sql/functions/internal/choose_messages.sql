-- Does: locks and returns up to p_limit visible messages of a limited queue in the order of its lanes and of time, of no group more than it
--   has room for: p_most of one in p_keys, p_default of others (null: any number), none of one in p_full. Of each lane the first
--   1,000 messages are read or, where p_after is given, groups that follow this name, by walk_lanes. Where any number may be
--   received of each group, no more are read than are returned.
-- Called by: claim_limited_messages.
-- Locks, in order: message rows, skipping locked ones.
-- Raises: nothing.
-- Relies on index: message_visible, and that of walk_lanes.
create function skipmq.choose_messages(
  p_queue_id bigint, p_lanes smallint[], p_now timestamptz, p_horizon timestamptz, p_most_receives integer, p_limit integer,
  p_keys text[], p_most integer[], p_full text[], p_default integer, p_after text
) returns table (place bigint, tid tid, group_id text, visible_at timestamptz)
language plpgsql volatile
as $$
#variable_conflict use_column
begin
  if p_keys is null and p_default is null then
    return query
    select s.place, m.tid, m.group_id, m.visible_at
    from unnest(p_lanes) with ordinality s (shard, place)
    cross join lateral (
      select h.*
      from (
        select m.ctid as tid, m.group_id, m.visible_at, m.enqueued_at,
          least(m.receive_count, 2147483646) - m.receive_base - coalesce(m.arrival_count, 0) as received
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null and m.visible_at <= p_now
        order by m.visible_at limit 1000
        for no key update skip locked
      ) h
      where h.enqueued_at > p_horizon and h.received < p_most_receives
      limit p_limit
    ) m
    limit p_limit;
    return;
  end if;
  return query
  select h.place, l.tid, h.group_id, h.visible_at
  from (
    select h.place, h.tid, h.group_id, h.visible_at
    from (
      select h.*, row_number() over (partition by h.group_id order by h.place, h.visible_at) as number
      from (
        select s.place, m.*
        from unnest(p_lanes) with ordinality s (shard, place)
        cross join lateral (
          select h.*
          from (
            select m.ctid as tid, m.group_id, m.visible_at, m.enqueued_at,
              least(m.receive_count, 2147483646) - m.receive_base - coalesce(m.arrival_count, 0) as received
            from skipmq.message m
            where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null and m.visible_at <= p_now
            order by m.visible_at limit 1000
          ) h
          where h.enqueued_at > p_horizon and h.received < p_most_receives and h.group_id = any (p_full) is not true
          limit p_limit
        ) m
        where p_after is null
        union all
        select w.* from skipmq.walk_lanes(p_queue_id, p_lanes, p_now, p_full, p_limit, p_after) w
        where p_after is not null and w.enqueued_at > p_horizon and w.received < p_most_receives
      ) h
    ) h
    left join unnest(p_keys, p_most) k (key, most) on k.key = h.group_id
    where h.group_id is null or h.number <= coalesce(k.most, p_default, 2147483647)
    order by h.place, h.visible_at limit p_limit
  ) h
  cross join lateral (
    select m.ctid as tid from skipmq.message m where m.ctid = h.tid and m.visible_at <= p_now for no key update skip locked
  ) l;
end $$;
