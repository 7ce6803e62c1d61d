-- Does: returns the addresses of the partitions, by number, where this database is a router; none where it is not.
-- Called by: nodes, when they start, to run statements on a queue in its partition; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: by sql/router/.
create function skipmq.partition_addresses() returns text[]
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select '{}'::text[]
$$;
