-- Does: lists the tasks of all queues of an account in a region, those that run first and then the newest.
-- Called by: the ListTasks action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: move_task_active, move_task_started.
-- Routed: to all partitions; the rows are merged, order by is_active desc, started_at desc limit p_limit.
create function skipmq.account_tasks(p_account text, p_region text, p_limit integer default 50)
returns table (
  is_active boolean, source_arn text, task_id uuid, status text, destination_arn text, messages_per_second integer,
  moved bigint, to_move bigint, failure_reason text, started_at timestamptz, kind text, passed bigint
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    f.is_active, f.source_arn, f.task_id, f.status, f.destination_arn, f.messages_per_second, f.moved, f.to_move,
    f.failure_reason, f.started_at, f.kind, f.passed
  from (
    (
      select true as is_active, t.* from skipmq.move_task t
      where t.status in ('RUNNING', 'CANCELLING')
        and starts_with(t.source_arn, format('arn:aws:sqs:%s:%s:', p_region, p_account))
      order by t.started_at desc
      limit p_limit
    ) union all (
      select false, t.* from skipmq.move_task t
      where t.status not in ('RUNNING', 'CANCELLING')
        and starts_with(t.source_arn, format('arn:aws:sqs:%s:%s:', p_region, p_account))
      order by t.started_at desc
      limit p_limit
    )
  ) f
  order by f.is_active desc, f.started_at desc
  limit p_limit;
$$;
