-- Does: deletes those of the first p_limit audit records that are older than p_keep and than a day; returns their number.
-- Called by: the janitor.
-- Locks, in order: row of the job (does nothing when it is locked), audit records.
-- Raises: nothing.
-- Relies on index: audit_record_pkey.
-- Routed: to each partition; the results are added.
create function skipmq.expire_audit_records(p_keep interval, p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before timestamptz := skipmq.clock() - greatest(p_keep, interval '1 day');
  v_deleted integer;
begin
  if not skipmq.hold_job('expire_audit_records') then
    return 0;
  end if;
  -- Ids are in the order of time, so that the first rows are the oldest.
  delete from skipmq.audit_record r
  where r.id = any (array(select o.id from skipmq.audit_record o order by o.id limit p_limit))
    and r.recorded_at < v_before;
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;
