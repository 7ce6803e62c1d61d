-- Does: returns a number that is another one after an access key or an ended session was changed, and the time, in seconds since 1970.
-- Called by: nodes that verify signatures, every second.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to the first partition that answers.
create function skipmq.access_key_version() returns table (version bigint, now float8)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.access_key_version, extract(epoch from skipmq.clock())::float8 from skipmq.cluster c
$$;
