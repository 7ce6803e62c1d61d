-- Does: lists the newest tasks of a source, newest first, without those of a deleted queue of the same name: redrives, and
--   with p_every also tasks with a filter.
-- Called by: the ListMessageMoveTasks and ListMessageTasks actions; SQL users.
-- Locks, in order: none.
-- Raises: SQ010 when the source does not exist.
-- Relies on index: move_task_source.
-- Routed: to the partition of p_source_arn.
create function skipmq.list_move_tasks(p_source_arn text, p_limit integer default 1, p_every boolean default false)
returns table (
  task_id uuid, status text, destination_arn text, messages_per_second integer, moved bigint,
  to_move bigint, failure_reason text, started_at timestamptz, kind text, body_contains text, attribute_name text,
  attribute_value text, passed bigint, filter jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_since timestamptz := skipmq.queue_since(p_source_arn);
begin
  if v_since is null then
    raise exception 'The resource that you specified for the SourceArn parameter doesn''t exist.'
      using errcode = 'SQ010';
  end if;
  return query
  select
    t.task_id, t.status, t.destination_arn, t.messages_per_second, t.moved, t.to_move, t.failure_reason,
    t.started_at, t.kind, t.body_contains, t.attribute_name, t.attribute_value, t.passed,
    t.filter
  from skipmq.move_task t
  where t.source_arn = p_source_arn and t.started_at >= v_since and (p_every or t.kind = 'redrive')
  order by t.started_at desc
  limit p_limit;
end $$;
