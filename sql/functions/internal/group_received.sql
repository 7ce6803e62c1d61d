-- Does: returns the messages at the front of a group that were received, in order, and when they become visible again.
-- Called by: fifo_in_flight, release_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_group_order.
create function skipmq.group_received(p_queue_id bigint, p_group_no bigint, p_first_number bigint)
returns table (id bigint, enqueued_at timestamptz, visible_at timestamptz)
language sql stable
as $$
  with recursive received as (
    (select m.id, m.enqueued_at, m.sequence_number, m.visible_at, m.receive_count > m.receive_base as received
     from skipmq.message m
     where m.queue_id = p_queue_id and m.group_no = p_group_no and m.sequence_number >= p_first_number
     order by m.sequence_number
     limit 1)
    union all
    select e.*
    from received r
    cross join lateral (
      select m.id, m.enqueued_at, m.sequence_number, m.visible_at, m.receive_count > m.receive_base
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no = p_group_no and m.sequence_number > r.sequence_number
      order by m.sequence_number
      limit 1
    ) e
    where r.received
  )
  select r.id, r.enqueued_at, r.visible_at from received r where r.received
$$;
