-- Does: deletes up to p_limit ended sessions that have expired; returns their number.
-- Called by: the janitor.
-- Locks, in order: ended sessions, skipping locked ones.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to each partition; the results are added.
create function skipmq.expire_ended_sessions(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before timestamptz := skipmq.clock() - interval '1 minute';
  v_deleted integer;
begin
  delete from skipmq.ended_session e
  where e.digest = any (array(
    select o.digest from skipmq.ended_session o where o.until <= v_before limit p_limit for update skip locked));
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;
