-- Does: sends the message of the tick p_tick of a schedule (null: of none), and sets the time of its next one (null: it ends), in one
--   transaction, if its time is p_due still and no other session has it. p_failure ends it with that reason. A message that cannot
--   be sent counts as a failure, and max_failures in a row end the schedule. Returns whether it was advanced.
-- Called by: the janitor.
-- Locks, in order: row of the schedule, skipping a locked one; those of send_tick.
-- Raises: nothing that the queue refuses.
-- Relies on index: schedule_pkey, schedule_tick_pkey, and those of send_tick.
-- Routed: not: nodes run it on each partition.
create function skipmq.advance_schedule(
  p_account text, p_region text, p_name text, p_due timestamptz, p_tick timestamptz, p_next timestamptz, p_failure text default null
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_schedule skipmq.schedule;
  v_failure text := left(p_failure, 500);
  v_failures integer := 0;
begin
  select s.* into v_schedule from skipmq.schedule s
  where s.account = p_account and s.region = p_region and s.name = p_name and s.next_at = p_due and not s.paused
  for update skip locked;
  if not found then
    return false;
  end if;
  if p_tick is not null then
    begin
      perform skipmq.send_tick(v_schedule, p_tick);
    exception
      -- The queue is gone, or does not accept the message; other errors repeat the tick.
      when sqlstate 'SQ001' or sqlstate 'SQ005' or sqlstate 'SQ007' or sqlstate 'SQ008' or sqlstate 'SQ009' or sqlstate 'SQ011'
        or sqlstate 'SQ012' or sqlstate 'SQ013' or data_exception or integrity_constraint_violation
      then
        v_failure := left(sqlerrm, 500);
        v_failures := v_schedule.failures + 1;
        insert into skipmq.schedule_tick (account, region, name, due_at, ran_at, failure)
        values (p_account, p_region, p_name, p_tick, skipmq.clock(), v_failure)
        on conflict do nothing;
    end;
  end if;
  update skipmq.schedule s set
    planned = true, planned_at = skipmq.clock(), failures = v_failures, failure = v_failure,
    next_at = case when v_failures < v_schedule.max_failures then p_next end
  where s.account = p_account and s.region = p_region and s.name = p_name;
  return true;
end $$;
