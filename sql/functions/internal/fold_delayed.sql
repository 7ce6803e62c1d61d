-- Does: replaces the changes of each time of delivery by their sum, and deletes what is kept of times that have passed.
-- Called by: fold_counts.
-- Locks, in order: the changes. The caller holds the row of its job.
-- Raises: nothing.
-- Relies on index: delayed_count_due, delayed_message_due.
create function skipmq.fold_delayed(p_now timestamptz) returns void
language sql volatile
as $$
  delete from skipmq.delayed_message d where d.due_at < p_now - interval '1 hour';
  with changed as (
    select d.queue_id, d.due_at from skipmq.delayed_count d
    group by d.queue_id, d.due_at
    having count(*) > 1 or d.due_at < p_now - interval '1 hour'
  ), folded as (
    delete from skipmq.delayed_count d using changed c
    where d.queue_id = c.queue_id and d.due_at = c.due_at
    returning d.*
  )
  insert into skipmq.delayed_count (queue_id, due_at, change)
  select f.queue_id, f.due_at, sum(f.change) from folded f
  where f.due_at >= p_now - interval '1 hour'
  group by f.queue_id, f.due_at
  having sum(f.change) <> 0;
$$;
