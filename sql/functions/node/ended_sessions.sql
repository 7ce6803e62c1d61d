-- Does: returns the digests of the console's sessions that were signed out and have not expired yet.
-- Called by: nodes that verify signatures, when keys or ended sessions have changed.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to the first partition that answers.
--
-- It returns them for a further minute, since nodes estimate the time.
create function skipmq.ended_sessions() returns setof bytea
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select e.digest from skipmq.ended_session e where e.until > skipmq.clock() - interval '1 minute'
$$;
