-- Does: counts all messages of a queue from the sums, at a cost that does not depend on their number.
-- Called by: count_messages, bound_in_flight.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_count_pkey, queue_delta_at.
create function skipmq.count_all(p_queue_id bigint) returns bigint
language sql stable
as $$
  select
    coalesce((select c.messages from skipmq.queue_count c where c.queue_id = p_queue_id), 0)
    + coalesce((
      select sum(d.change)
      from skipmq.queue_delta d
      where d.queue_id = p_queue_id and d.at >= (select c.counted_to - interval '10 seconds' from skipmq.cluster c)), 0)
$$;
