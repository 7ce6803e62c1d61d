-- Does: clears up to 1,000 messages from the head of a group, which the caller has locked: settles those past retention,
--   or moves those received p_most times to the dead-letter queue p_target. Updates the group's available_at. Returns
--   the number cleared.
-- Called by: clear_groups.
-- Locks, in order: message rows, and those of append_fifo and refresh_groups.
-- Raises: nothing.
-- Relies on index: message_group_order, and those of append_fifo and refresh_groups.
create function skipmq.clear_group(
  p_queue_id bigint, p_group_no bigint, p_now timestamptz, p_horizon timestamptz, p_most integer, p_target bigint
) returns integer
language plpgsql volatile
as $$
declare
  v_tids tid[];
  v_ids bigint[];
  v_count integer := 0;
begin
  select
    array_agg(h.tid) filter (where h.expired),
    array_agg(h.id order by h.sequence_number) filter (where h.dead)
  into v_tids, v_ids
  from (
    select m.tid, m.id, m.sequence_number,
      bool_and(m.expired) over (order by m.sequence_number) as expired,
      bool_and(m.dead and not m.expired) over (order by m.sequence_number) as dead
    from (
      select m.ctid as tid, m.id, m.sequence_number, m.visible_at,
        m.enqueued_at <= p_horizon and (m.visible_at <= p_now or m.receive_count = m.receive_base) as expired,
        m.receive_count - m.receive_base - coalesce(m.arrival_count, 0) >= p_most and m.visible_at <= p_now as dead
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no = p_group_no
      order by m.sequence_number
      limit 1000
    ) m
  ) h;
  if v_tids is not null then
    v_count := skipmq.settle(v_tids, 'expired');
  elsif v_ids is not null then
    v_count := skipmq.append_fifo(
      p_queue_id, v_ids, array_fill(p_target, array[cardinality(v_ids)]), 'dead-lettered');
  end if;
  perform skipmq.refresh_groups(p_queue_id, array[p_group_no]);
  if v_count = 0 and v_ids is not null then
    -- A sender holds a lock in the dead-letter queue, or that queue was purged: retry soon.
    update skipmq.message_group g set available_at = p_now + interval '10 milliseconds'
    where g.queue_id = p_queue_id and g.group_no = p_group_no;
  end if;
  return v_count;
end $$;
