-- Does: undoes receives whose response no client got: makes messages of a standard queue visible immediately and does not
--   count the receive. Skips messages that were received again or settled; returns the number of the others.
-- Called by: the ReceiveMessage action, when its client disconnected before the response was written; return_fifo_messages,
--   return_message; SQL users.
-- Locks, in order: message rows by id.
-- Raises: nothing.
-- Relies on index: message_pkey, queue_id.
-- Routed: to the partition of p_queue_id.
--
-- receive_count is not decremented: the undelivered receipt must not match the next receive.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it unchanged.
create function skipmq.return_messages(
  p_queue_id bigint, p_ids bigint[], p_receive_counts integer[], p_message_ids uuid[], p_commit text default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_count integer;
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  with returned as (
    update skipmq.message m set
      -- As refresh_groups reads it: the queue's delay is added to a FIFO message that was never received.
      visible_at = v_now - coalesce(case when m.group_no is not null then (
        select make_interval(secs => q.delay_seconds) from skipmq.queue q where q.queue_id = p_queue_id) end, interval '0'),
      receive_base = m.receive_base + 1,
      first_received_at = case when m.receive_count > m.receive_base + 1 then m.first_received_at end
    from (
      select u.* from unnest(p_ids, p_receive_counts, p_message_ids) u (id, receive_count, message_id) order by u.id
    ) r
    where m.id = r.id and m.receive_count = r.receive_count and m.message_id = r.message_id and m.queue_id = p_queue_id
    returning m.id
  )
  select count(*) into v_count from returned;
  return v_count;
end $$;
