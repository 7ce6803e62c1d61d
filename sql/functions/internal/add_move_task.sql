-- Does: adds an active task of a source queue and notifies the janitors on commit; returns the task's id. Fails an
--   active task that belongs to a deleted queue of the same name.
-- Called by: start_move_task, start_message_task.
-- Locks, in order: row of the active task.
-- Raises: SQ008 when the source has an active task.
-- Relies on index: move_task_active, and those of count_messages.
create function skipmq.add_move_task(
  p_source bigint, p_source_arn text, p_destination_arn text, p_messages_per_second integer,
  p_kind text default 'redrive', p_body_contains text default null, p_attribute_name text default null,
  p_attribute_value text default null, p_filter jsonb default null
) returns uuid
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_task uuid;
begin
  update skipmq.move_task t
  set status = 'FAILED', failure_reason = 'AWS.SimpleQueueService.NonExistentQueue'
  where t.source_arn = p_source_arn and t.status in ('RUNNING', 'CANCELLING')
    and t.started_at < skipmq.queue_since(p_source_arn);
  insert into skipmq.move_task (
    task_id, source_arn, destination_arn, status, messages_per_second, to_move, started_at, paid_until,
    kind, body_contains, attribute_name, attribute_value, filter)
  select
    gen_random_uuid(), p_source_arn, p_destination_arn, 'RUNNING', p_messages_per_second, c.visible, v_now, v_now,
    p_kind, p_body_contains, p_attribute_name, p_attribute_value, p_filter
  from skipmq.count_messages(p_source) c
  on conflict (source_arn) where status in ('RUNNING', 'CANCELLING') do nothing
  returning task_id into v_task;
  if v_task is null then
    raise exception 'There is already a task running. Only one active task is allowed for a source queue arn at a given time.'
      using errcode = 'SQ008';
  end if;
  perform pg_notify('skipmq_tasks', '');
  return v_task;
end $$;
