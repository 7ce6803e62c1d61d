-- Does: returns the current generation of the queue that an ARN names; null when it does not exist.
-- Called by: start_move_task, start_message_task, advance_move_tasks, is_redrivable, queue_since.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey.
create function skipmq.queue_of_arn(p_arn text) returns bigint
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.queue_id
  from skipmq.queue q
  where q.account = split_part(p_arn, ':', 5)
    and q.region = split_part(p_arn, ':', 4)
    and q.name = split_part(p_arn, ':', 6)
    and p_arn = format('arn:aws:sqs:%s:%s:%s', q.region, q.account, q.name)
$$;
