-- Does: returns an id for a new generation of a queue: the number of this partition, and 57 random bits. A server that lost
--   committed queues does not assign their ids again, so that nothing that still has one can reach another queue.
-- Called by: create_queue, purge_queue; the move of a queue between partitions.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.new_queue_id() returns bigint
language sql volatile
as $$
  select (c.partition::bigint << 57) | (hashtextextended(gen_random_uuid()::text, 0) & ((1::bigint << 57) - 1))
  from skipmq.cluster c
$$;
