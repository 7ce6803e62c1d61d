-- Does: returns the messages of a FIFO queue that are in flight (received and hidden) at p_at.
-- Called by: count_in_flight, peek_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_group_available, message_group_order.
--
-- Received messages are at the front of their group. Of the groups whose first message is visible, the 1,000 are examined
-- whose first message became so last.
create function skipmq.fifo_in_flight(p_queue_id bigint, p_at timestamptz)
returns table (id bigint, enqueued_at timestamptz)
language sql stable
as $$
  select m.id, m.enqueued_at
  from (
    (select g.group_no, g.first_number
     from skipmq.message_group g
     where g.queue_id = p_queue_id and g.available_at > p_at)
    union all
    -- When the first message of a group was made visible again, later ones may still be in flight.
    (select g.group_no, g.first_number
     from skipmq.message_group g
     where g.queue_id = p_queue_id and g.available_at <= p_at
     order by g.available_at desc
     limit 1000)
  ) g
  cross join lateral (
    with recursive received as (
      (select m.id, m.enqueued_at, m.sequence_number, m.visible_at, m.receive_count > m.receive_base as received
       from skipmq.message m
       where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number >= g.first_number
       order by m.sequence_number
       limit 1)
      union all
      select e.*
      from received r
      cross join lateral (
        select m.id, m.enqueued_at, m.sequence_number, m.visible_at, m.receive_count > m.receive_base
        from skipmq.message m
        where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number > r.sequence_number
        order by m.sequence_number
        limit 1
      ) e
      where r.received
    )
    select r.id, r.enqueued_at from received r where r.received and r.visible_at > p_at
  ) m
$$;
