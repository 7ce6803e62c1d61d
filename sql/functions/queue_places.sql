-- Does: lists the accounts and regions that have a queue of this name.
-- Called by: queue_id and commands, for a name that was not found.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none; it reads all queues.
create function skipmq.queue_places(p_name text) returns table (account text, region text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.account, q.region from skipmq.queue q where q.name = p_name order by q.account, q.region
$$;
