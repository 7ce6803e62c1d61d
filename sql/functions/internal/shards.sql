-- Does: returns the shards that the messages of a standard queue are in.
-- Called by: what reads all messages of a queue.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id.
create function skipmq.shards(p_queue_id bigint) returns smallint[]
language sql stable
as $$
  select case
    when exists (select from skipmq.queue q where q.queue_id = p_queue_id and not q.limited) then '{0,1,2}'
    else '{0,1,2,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39}'
  end::smallint[]
$$;
