-- Does: starts a task that moves, copies or deletes (p_kind) the messages of a queue that are visible now (FIFO: not in
--   flight) and match a filter: a text in the body, the name of an attribute, its value, and p_filter, the members of
--   matches_filter and until (visible by then); without one, all. Returns the task's id.
-- Called by: the StartMessageTask action; SQL users.
-- Locks, in order: none except the task's row.
-- Raises: SQ010 when a queue does not exist, SQ008 for invalid parameters or when the source has an active task.
-- Relies on index: queue_pkey, and those of add_move_task.
-- Routed: to the partition of p_source_arn and p_destination_arn.
create function skipmq.start_message_task(
  p_source_arn text, p_kind text, p_destination_arn text default null, p_messages_per_second integer default null,
  p_body_contains text default null, p_attribute_name text default null, p_attribute_value text default null,
  p_filter jsonb default null
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_source bigint := skipmq.queue_of_arn(p_source_arn);
begin
  if v_source is null then
    raise exception 'The source queue does not exist.' using errcode = 'SQ010';
  elsif p_kind not in ('move', 'copy', 'delete') then
    raise exception 'The kind of a task must be move, copy or delete.' using errcode = 'SQ008';
  elsif (p_kind = 'delete') <> (p_destination_arn is null) then
    raise exception 'Move and copy tasks require a destination queue; delete tasks must not have one.' using errcode = 'SQ008';
  elsif p_destination_arn is not null and skipmq.queue_of_arn(p_destination_arn) is null then
    raise exception 'The destination queue does not exist.' using errcode = 'SQ010';
  elsif p_destination_arn = p_source_arn then
    raise exception 'The destination of a task must not be its source.' using errcode = 'SQ008';
  elsif (p_destination_arn like '%.fifo') <> (p_source_arn like '%.fifo') then
    raise exception 'The destination of a task must be of the same type as its source.' using errcode = 'SQ008';
  elsif p_attribute_value is not null and p_attribute_name is null then
    raise exception 'A filter by attribute value requires an attribute name.' using errcode = 'SQ008';
  elsif greatest(length(p_body_contains), length(p_attribute_name), length(p_attribute_value)) > 256 then
    raise exception 'A filter of a task must have at most 256 characters.' using errcode = 'SQ008';
  end if;
  perform skipmq.check_filter(p_filter);
  return skipmq.add_move_task(
    v_source, p_source_arn, p_destination_arn, p_messages_per_second, p_kind, p_body_contains, p_attribute_name,
    p_attribute_value, p_filter);
end $$;
