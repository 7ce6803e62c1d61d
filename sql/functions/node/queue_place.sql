-- Does: returns the number of the partition that a name is reserved for; null when its queue is or would be in this one.
-- Called by: routers; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_place_pkey.
-- Routed: not: routers call it.
create function skipmq.queue_place(p_account text, p_region text, p_name text) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select e.partition
  from skipmq.queue_place e
  where e.account = p_account and e.region = p_region and e.name = p_name
$$;
