-- Does: moves up to 1,000 visible messages of each of the shards 0 to 2 of a limited queue to its lanes: what was there before it
--   was limited, and what came from another queue.
-- Called by: claim_limited_messages.
-- Locks, in order: message rows, skipping locked ones.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.move_to_lanes(p_queue skipmq.queue, p_now timestamptz) returns void
language plpgsql volatile
as $$
begin
  update skipmq.message m set shard = skipmq.lane_of(p_queue.priority_mode, m.attributes) + case m.shard when 1 then 20 when 2 then 10 else 0 end
  from (
    select m.ctid as tid
    from unnest('{0,1,2}'::smallint[]) s (shard)
    cross join lateral (
      select m.ctid
      from skipmq.message m
      where m.queue_id = p_queue.queue_id and m.shard = s.shard and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= p_now
      order by m.visible_at limit 1000
      for no key update skip locked
    ) m
  ) h
  where m.ctid = h.tid;
end $$;
