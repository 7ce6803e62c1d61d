-- Does: gives the digests of the console's sessions that were signed out of and would otherwise still last.
-- Called by: nodes that check signatures, when the keys or these have changed.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- A minute longer: nodes estimate the time.
create function skipmq.ended_sessions() returns setof bytea
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select e.digest from skipmq.ended_session e where e.until > skipmq.clock() - interval '1 minute'
$$;
