-- Does: adds counts of received messages and of empty receives to the totals of queues.
-- Called by: nodes, once a second with their counts; receive_message.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to the partition of each of p_queue_ids.
create function skipmq.add_receives(p_queue_ids bigint[], p_received integer[], p_empty integer[]) returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set synchronous_commit = off
as $$
  insert into skipmq.queue_delta (at, queue_id, change, event, number)
  select skipmq.clock(), u.queue_id, 0, e.event, e.number
  from unnest(p_queue_ids, p_received, p_empty) u (queue_id, received, empty)
  cross join lateral (values ('received', u.received), ('empty', u.empty)) e (event, number)
  where e.number > 0;
$$;
