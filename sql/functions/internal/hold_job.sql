-- Does: locks a job for the caller's transaction and returns true; false when another transaction has locked it. With
--   p_waits it waits for that one to end.
-- Called by: the jobs of the janitor.
-- Locks, in order: row of the job.
-- Raises: nothing.
-- Relies on index: job_pkey.
--
-- A row rather than an advisory lock, which any login of the database could hold indefinitely.
create function skipmq.hold_job(p_name text, p_waits boolean default false) returns boolean
language plpgsql volatile
as $$
begin
  if p_waits then
    perform from skipmq.job j where j.name = p_name for update;
  else
    perform from skipmq.job j where j.name = p_name for update skip locked;
  end if;
  return found;
end $$;
