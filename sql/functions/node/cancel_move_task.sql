-- Does: requests that a running task stop; returns how many messages it has moved. Those stay moved. One that ended
--   within five seconds of its start stays as it is, without an error: its client could not see the end.
-- Called by: the CancelMessageMoveTask action; SQL users.
-- Locks, in order: task row.
-- Raises: SQ010 when the task does not exist, has another source than p_source_arn or belongs to a deleted queue of the
--   same name; SQ008 when it is not running.
-- Relies on index: move_task_pkey.
-- Routed: by sql/router/, in one partition.
create function skipmq.cancel_move_task(p_task_id uuid, p_source_arn text default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_status text;
  v_moved bigint;
  v_ended boolean;
begin
  select t.status, t.moved, t.status in ('COMPLETED', 'FAILED') and t.started_at > skipmq.clock() - interval '5 seconds'
  into v_status, v_moved, v_ended
  from skipmq.move_task t where t.task_id = p_task_id and t.source_arn = coalesce(p_source_arn, t.source_arn)
    and coalesce(t.started_at >= skipmq.queue_since(t.source_arn), true)
  for update;
  if v_status is null then
    raise exception 'Task does not exist.' using errcode = 'SQ010';
  elsif v_ended then
    return v_moved;
  elsif v_status <> 'RUNNING' then
    raise exception 'Only active tasks can be cancelled.' using errcode = 'SQ008';
  end if;
  update skipmq.move_task t set status = 'CANCELLING' where t.task_id = p_task_id;
  perform pg_notify('skipmq_tasks', '');
  return v_moved;
end $$;
