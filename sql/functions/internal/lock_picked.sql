-- Does: locks messages of a generation; returns those that are not in flight, in the order in which they were sent (tids:
--   their rows, in the order of their ids), and those that are (held). A message in neither is missing.
-- Called by: move_messages, delete_picked_messages.
-- Locks, in order: message rows by id. The caller holds the groups of a FIFO queue.
-- Raises: nothing.
-- Relies on index: message_pkey.
create function skipmq.lock_picked(
  p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_now timestamptz
) returns table (free bigint[], held bigint[], tids tid[])
language sql volatile
as $$
  select
    array_agg(m.id order by m.sequence_number, m.id) filter (where m.visible_at <= p_now or not m.received),
    array_agg(m.id) filter (where m.visible_at > p_now and m.received),
    array_agg(m.tid order by m.id) filter (where m.visible_at <= p_now or not m.received)
  from (
    select m.*
    from (
      select distinct u.id, u.message_id from unnest(p_ids, p_message_ids) u (id, message_id) order by u.id
    ) u
    cross join lateral (
      select m.ctid as tid, m.id, m.sequence_number, m.visible_at, m.receive_count > m.receive_base as received
      from skipmq.message m
      where m.id = u.id and m.message_id = u.message_id and m.queue_id = p_queue_id
      for no key update
    ) m
  ) m;
$$;
