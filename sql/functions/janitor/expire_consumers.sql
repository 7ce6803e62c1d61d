-- Does: deletes up to p_limit consumers that were not seen for ten minutes, workers that were not for an hour, refusals
--   after six hours, and kinds of failure after seven days; returns the number of consumers.
-- Called by: the janitor.
-- Locks, in order: consumers, workers, refusals, kinds of failure, each skipping locked ones.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to each partition; the results are added.
create function skipmq.expire_consumers(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_deleted integer;
begin
  delete from skipmq.consumer c
  where c.ctid = any (array(
    select o.ctid from skipmq.consumer o
    where o.seen_at < v_now - interval '10 minutes' limit p_limit for update skip locked));
  get diagnostics v_deleted = row_count;
  delete from skipmq.worker w
  where w.ctid = any (array(
    select o.ctid from skipmq.worker o where o.seen_at < v_now - interval '1 hour' limit p_limit for update skip locked));
  delete from skipmq.refusal r
  where r.ctid = any (array(
    select o.ctid from skipmq.refusal o where o.minute < v_now - interval '6 hours' limit p_limit for update skip locked));
  delete from skipmq.known_failure k
  where k.ctid = any (array(
    select o.ctid from skipmq.known_failure o where o.seen_at < v_now - interval '7 days' limit p_limit for update skip locked));
  return v_deleted;
end $$;
