-- Does: settles up to p_limit messages of a shard of a standard queue that became visible between p_from and p_to and are
--   past its retention period (enqueued by p_horizon); returns their number.
-- Called by: clear_head, expire_messages.
-- Locks, in order: message rows, skipping locked ones.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.expire_visible(
  p_queue_id bigint, p_shard smallint, p_from timestamptz, p_to timestamptz, p_horizon timestamptz, p_limit integer
) returns integer
language plpgsql volatile
as $$
declare
  v_tids tid[];
begin
  select array_agg(h.tid) into v_tids
  from (
    select m.ctid as tid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
      and m.visible_at >= p_from and m.visible_at <= p_to and m.enqueued_at <= p_horizon
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  ) h;
  if v_tids is null then
    return 0;
  end if;
  return skipmq.settle(v_tids, 'expired');
end $$;
