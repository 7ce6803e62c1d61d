-- Does: returns for each of p_message_ids the number of the message of a standard queue with that message id which was never received
--   and is delayed; null where there is none.
-- Called by: reschedule_messages, delete_picked_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: delayed_message_pkey, message_visible.
--
-- One that was delayed by at most 900 seconds is looked for among all that become visible within them.
create function skipmq.delayed_ids(p_queue_id bigint, p_message_ids uuid[], p_now timestamptz) returns bigint[]
language sql stable
as $$
  select array_agg(m.id order by u.place)
  from unnest(p_message_ids) with ordinality u (message_id, place)
  left join lateral (
    (select m.id from skipmq.delayed_message d
    join skipmq.message m on m.queue_id = p_queue_id and m.shard = any (skipmq.shards(p_queue_id)) and m.group_no is null
      and m.visible_at = d.due_at and m.message_id = d.message_id
    where d.queue_id = p_queue_id and d.message_id = u.message_id and d.due_at > p_now and m.receive_count = m.receive_base)
    union all
    (select m.id from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = any (skipmq.shards(p_queue_id)) and m.group_no is null
      and m.visible_at > p_now and m.visible_at <= p_now + interval '900 seconds'
      and m.message_id = u.message_id and m.receive_count = m.receive_base)
    limit 1
  ) m on true
$$;
