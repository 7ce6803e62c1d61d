-- Does: changes a schedule: pause, resume (also one that ended: the next tick is one after now), run (sends a message now) or delete.
--   Returns 1, or 0 where there is no such schedule, or none that session_user may change.
-- Called by: the PauseSchedule, RunSchedule and DeleteSchedule actions; SQL users.
-- Locks, in order: row of the schedule; those of send_tick.
-- Raises: for run what a send to the queue raises; SQ008 for another change.
-- Relies on index: schedule_pkey, schedule_tick_pkey, and those of send_tick.
-- Routed: to each partition; the results are added.
create function skipmq.change_schedule(
  p_name text, p_change text,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_schedule skipmq.schedule;
begin
  select s.* into v_schedule from skipmq.schedule s
  where s.account = p_account and s.region = p_region and s.name = p_name;
  if not found then
    return 0;
  end if;
  begin
    -- Before the lock, which another's schedule would otherwise wait for.
    perform skipmq.check_grant('send', v_schedule.queue, p_account, p_region);
  exception
    when insufficient_privilege then
      return 0;
  end;
  select s.* into v_schedule from skipmq.schedule s
  where s.account = p_account and s.region = p_region and s.name = p_name
  for update;
  if not found then
    return 0;
  end if;
  case p_change
    when 'pause' then
      update skipmq.schedule s set paused = true
      where s.account = p_account and s.region = p_region and s.name = p_name;
    when 'resume' then
      update skipmq.schedule s set paused = false, planned = false, next_at = v_now, failures = 0, failure = null
      where s.account = p_account and s.region = p_region and s.name = p_name;
    when 'run' then
      perform skipmq.send_tick(v_schedule, v_now);
    when 'delete' then
      delete from skipmq.schedule_tick t
      where t.account = p_account and t.region = p_region and t.name = p_name;
      delete from skipmq.schedule s
      where s.account = p_account and s.region = p_region and s.name = p_name;
    else
      raise exception 'A schedule can be changed by pause, resume, run and delete, not by %.', skipmq.shown(p_change)
        using errcode = 'SQ008';
  end case;
  perform pg_notify('skipmq_tasks', '');
  return 1;
end $$;
