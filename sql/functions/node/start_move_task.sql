-- Does: starts a redrive of the messages of a dead-letter queue; returns the task's id. Without a destination, and where
--   p_origins is not null, only messages from these queues (ARNs) move: those that the caller may send to.
-- Called by: the StartMessageMoveTask action; SQL users.
-- Locks, in order: none except the task's row.
-- Raises: SQ010 when a queue does not exist, SQ008 when the source is not a dead-letter queue or has an active task.
-- Relies on index: queue_dead_letter, and those of add_move_task.
-- Routed: to the partition of p_source_arn and p_destination_arn.
create function skipmq.start_move_task(
  p_source_arn text, p_destination_arn text default null, p_messages_per_second integer default null,
  p_origins text[] default null
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_source bigint := skipmq.queue_of_arn(p_source_arn);
  v_task uuid;
begin
  if v_source is null then
    raise exception 'The resource that you specified for the SourceArn parameter doesn''t exist.'
      using errcode = 'SQ010';
  elsif p_destination_arn is not null and skipmq.queue_of_arn(p_destination_arn) is null then
    raise exception 'The resource that you specified for the DestinationArn parameter doesn''t exist.'
      using errcode = 'SQ010';
  elsif p_destination_arn = p_source_arn then
    raise exception 'The destination of a message move task must not be its source.' using errcode = 'SQ008';
  elsif (p_destination_arn like '%.fifo') <> (p_source_arn like '%.fifo') then
    raise exception 'The destination of a message move task must be of the same type as its source.'
      using errcode = 'SQ008';
  end if;
  if not exists (
    select from skipmq.queue q
    where q.dead_letter_account = split_part(p_source_arn, ':', 5)
      and q.region = split_part(p_source_arn, ':', 4)
      and q.dead_letter_name = split_part(p_source_arn, ':', 6))
  then
    raise exception 'Source queue must be configured as a Dead Letter Queue.' using errcode = 'SQ008';
  end if;
  v_task := skipmq.add_move_task(v_source, p_source_arn, p_destination_arn, p_messages_per_second);
  update skipmq.move_task t set origins = p_origins where t.task_id = v_task and p_origins is not null;
  return v_task;
end $$;
