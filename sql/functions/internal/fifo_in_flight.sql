-- Does: returns the messages of a FIFO queue that are in flight (received and hidden) at p_at.
-- Called by: count_in_flight, peek_messages, release_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_group_available, and that of group_received.
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
  cross join lateral skipmq.group_received(p_queue_id, g.group_no, g.first_number) m
  where m.visible_at > p_at
$$;
