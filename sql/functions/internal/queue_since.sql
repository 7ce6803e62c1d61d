-- Does: returns when the queue that an ARN names was created, null when it does not exist: tasks started earlier belong to
--   a deleted queue of the same name.
-- Called by: add_move_task, advance_move_tasks, cancel_move_task, list_move_tasks.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, and that of queue_of_arn.
create function skipmq.queue_since(p_arn text) returns timestamptz
language sql stable
as $$
  select q.created_at from skipmq.queue q where q.queue_id = skipmq.queue_of_arn(p_arn)
$$;
