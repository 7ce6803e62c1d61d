-- Does: moves up to p_limit visible messages of a shard of a standard queue that were received p_most times to its
--   dead-letter queue, where they are visible immediately, by dead_letter; returns the number moved.
-- Called by: clear_head.
-- Locks, in order: queue row of the dead-letter queue (key share, so that it is neither purged nor deleted), message
--   rows, skipping locked ones.
-- Raises: nothing.
-- Relies on index: message_visible, and those of dead_letter.
create function skipmq.move_to_dead_letter_queue(
  p_queue_id bigint, p_shard smallint, p_target bigint, p_most integer, p_from timestamptz, p_to timestamptz, p_limit integer
) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz;
begin
  perform from skipmq.queue q where q.queue_id = p_target for key share;
  if not found then
    return 0;
  end if;
  v_now := skipmq.write_time();
  return skipmq.dead_letter(
    p_queue_id,
    array(
      select m.ctid
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
        and m.visible_at >= p_from and m.visible_at <= p_to
        and m.receive_count - m.receive_base - coalesce(m.arrival_count, 0) >= p_most
      order by m.visible_at
      limit p_limit
      for no key update skip locked),
    p_target, v_now);
end $$;
