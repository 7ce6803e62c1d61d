-- Does: deletes records of the audit log that are older than p_keep, and than a day, of the p_limit first ones; gives
--   their number.
-- Called by: the janitor.
-- Locks, in order: row of the job (when it is held elsewhere nothing is done), audit records.
-- Raises: nothing.
-- Relies on index: audit_record_pkey.
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
  -- Ids grow with time, but for a second or so: the first rows are the oldest.
  delete from skipmq.audit_record r
  where r.id = any (array(select o.id from skipmq.audit_record o order by o.id limit p_limit))
    and r.recorded_at < v_before;
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;
