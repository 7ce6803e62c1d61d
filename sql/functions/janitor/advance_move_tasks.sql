-- Does: continues each active task that no other session works on: moves, copies or deletes the messages that its rate
--   allows since the last call, at most p_limit. It begins a task p_after its start: until then a client can cancel it
--   before a message has moved. Ends a task that has no messages left, was cancelled or whose queue was deleted. Returns the number of messages moved, or examined where the task has a filter.
-- Called by: the janitor.
-- Locks, in order: task rows, message rows, skipping locked rows.
-- Raises: nothing.
-- Relies on index: move_task_active, and those of what it calls.
-- Routed: to each partition; the results are added.
create function skipmq.advance_move_tasks(p_limit integer default 1000, p_after interval default '0') returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_task skipmq.move_task;
  v_source bigint;
  v_target bigint;
  v_allowed integer;
  v_moved integer;
  v_finished boolean;
  v_step record;
  v_passed integer;
  v_failure text;
  v_total integer := 0;
begin
  for v_task in
    select t.* from skipmq.move_task t
    where t.status in ('RUNNING', 'CANCELLING') and (t.status = 'CANCELLING' or t.started_at <= v_now - p_after)
    for update skip locked
  loop
    v_source := skipmq.queue_of_arn(v_task.source_arn);
    v_target := skipmq.queue_of_arn(v_task.destination_arn);
    if v_task.status = 'CANCELLING' then
      update skipmq.move_task t set status = 'CANCELLED' where t.task_id = v_task.task_id;
      continue;
    elsif coalesce(v_task.started_at < skipmq.queue_since(v_task.source_arn), true)
      or v_target is null and v_task.destination_arn is not null then
      update skipmq.move_task t
      set status = 'FAILED', failure_reason = 'AWS.SimpleQueueService.NonExistentQueue'
      where t.task_id = v_task.task_id;
      continue;
    end if;
    v_failure := null;
    v_allowed := p_limit;
    if v_task.messages_per_second is not null then
      -- An idle task accumulates at most one second of its rate.
      v_task.paid_until := greatest(v_task.paid_until, v_now - interval '1 second');
      v_allowed := least(p_limit, floor(
        extract(epoch from v_now - v_task.paid_until) * v_task.messages_per_second)::integer);
      continue when v_allowed <= 0;
    end if;
    if v_task.kind <> 'redrive' then
      begin
        select * into v_step from skipmq.advance_message_task(v_task, v_source, v_target, v_allowed, p_limit);
      exception
        -- A queue was deleted or purged meanwhile, or the target does not accept a message.
        when sqlstate 'SQ005' or sqlstate 'SQ007' or sqlstate 'SQ008' then
          update skipmq.move_task t set status = 'FAILED', failure_reason = left(sqlerrm, 200)
          where t.task_id = v_task.task_id;
          continue;
      end;
      update skipmq.move_task t set
        passed = t.passed + v_step.passed,
        place_at = v_step.place_at,
        place_number = v_step.place_number
      where t.task_id = v_task.task_id;
      v_moved := v_step.moved;
      v_passed := v_step.passed;
      v_finished := v_step.finished;
    elsif v_task.source_arn like '%.fifo' then
      v_moved := skipmq.move_fifo_batch(v_source, v_target, v_allowed, v_task.origins);
    else
      v_moved := skipmq.move_batch(v_source, v_target, v_allowed, v_task.origins);
    end if;
    if v_task.kind = 'redrive' then
      -- Null: the remaining messages are locked.
      v_finished := v_moved = 0
        or v_moved > 0 and not skipmq.is_redrivable(v_source, v_target, v_task.source_arn like '%.fifo');
      if v_finished and v_task.moved + v_moved = 0 and v_target is null then
        v_failure := skipmq.redrive_failure(v_source, v_task.source_arn);
      end if;
      v_moved := coalesce(v_moved, 0);
      v_passed := v_moved;
    end if;
    update skipmq.move_task t set
      moved = t.moved + v_moved,
      to_move = greatest(t.to_move, t.moved + v_moved, t.passed),
      status = case when v_failure is not null then 'FAILED' when v_finished then 'COMPLETED' else 'RUNNING' end,
      failure_reason = v_failure,
      paid_until = v_task.paid_until
        + make_interval(secs => coalesce(v_moved::float8 / v_task.messages_per_second, 0))
    where t.task_id = v_task.task_id;
    v_total := v_total + v_passed;
  end loop;
  return v_total;
end $$;
