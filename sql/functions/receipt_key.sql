-- Does: gives the key that authenticates receipt handles, the same for all nodes.
-- Called by: a node when it starts.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.receipt_key() returns bytea
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.receipt_key from skipmq.cluster c
$$;
