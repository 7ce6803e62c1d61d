-- Does: adds p_change for each message of parallel p_queue_ids and p_times, when it becomes visible (null: the message does not
--   count), to the counts by that time, and notes the time of those in p_message_ids. Generations that are not those of standard
--   queues are left out.
-- Called by: send_messages, send_to_queues, reschedule_messages, settle, resend.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, delayed_message_pkey.
create function skipmq.count_delayed(p_queue_ids bigint[], p_times timestamptz[], p_change integer, p_message_ids uuid[] default null)
returns void
language sql volatile
as $$
  insert into skipmq.delayed_count (queue_id, due_at, change)
  select q.queue_id, date_bin('15 minutes', u.due_at, 'epoch'), p_change * count(*)
  from unnest(p_queue_ids, p_times) u (queue_id, due_at)
  join skipmq.queue q on q.queue_id = u.queue_id and not q.fifo
  where u.due_at is not null
  group by 1, 2;
  insert into skipmq.delayed_message as d (queue_id, message_id, due_at)
  select q.queue_id, u.message_id, u.due_at
  from unnest(p_queue_ids, p_times, p_message_ids) u (queue_id, due_at, message_id)
  join skipmq.queue q on q.queue_id = u.queue_id and not q.fifo
  where u.due_at is not null and u.message_id is not null
  on conflict (queue_id, message_id) do update set due_at = excluded.due_at;
$$;
