-- Does: reads up to p_limit visible messages at the head of a standard queue and moves those of noisy tenants to shard 1,
--   where they keep their order; of a limited queue moves up to p_limit of the noisy tenants to the lane of their priority for
--   these. Returns the number moved.
-- Called by: clear_head, mark_noisy.
-- Locks, in order: message rows, skipping locked ones.
-- Raises: nothing.
-- Relies on index: message_visible; for a limited queue message_lane.
create function skipmq.deprioritise(p_queue_id bigint, p_noisy text[], p_to timestamptz, p_limit integer, p_limited boolean default false)
returns integer
language plpgsql volatile
as $$
declare
  v_count integer;
begin
  if p_limited then
    update skipmq.message m set shard = m.shard + 20
    from (
      select m.tid
      from generate_series(10, 19) s (shard)
      cross join unnest(p_noisy) g (group_id)
      cross join lateral (
        select m.ctid as tid
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = s.shard and m.shard >= 10 and m.group_id = g.group_id and m.visible_at <= p_to
        order by m.visible_at
        limit p_limit
        for no key update skip locked
      ) m
      limit p_limit
    ) h
    where m.ctid = h.tid;
    get diagnostics v_count = row_count;
    return v_count;
  end if;
  with head as materialized (
    select m.ctid as tid, m.group_id
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at > '-infinity' and m.visible_at <= p_to
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  )
  update skipmq.message m set shard = 1
  from head h
  where m.ctid = h.tid and h.group_id = any (p_noisy);
  get diagnostics v_count = row_count;
  return v_count;
end $$;
