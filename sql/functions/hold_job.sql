-- Does: makes the caller's transaction the only one that does a job, and gives true; false when another does it. With
--   p_waits it waits for that one's end.
-- Called by: the jobs of the janitor.
-- Locks, in order: row of the job.
-- Raises: nothing.
-- Relies on index: job_pkey.
--
-- A row and no advisory lock, which every login of the database may hold for as long as it likes.
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
