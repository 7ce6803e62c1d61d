-- Does: does the same as return_messages for a FIFO queue: the groups become available immediately.
-- Called by: the ReceiveMessage action, return_message; SQL users.
-- Locks, in order: group rows by number, message rows by id.
-- Raises: nothing.
-- Relies on index: those of lock_groups, return_messages and refresh_groups.
-- Routed: to the partition of p_queue_id.
create function skipmq.return_fifo_messages(
  p_queue_id bigint, p_ids bigint[], p_receive_counts integer[], p_message_ids uuid[], p_commit text default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_groups bigint[] := skipmq.lock_groups(p_queue_id, p_ids);
  v_count integer := skipmq.return_messages(p_queue_id, p_ids, p_receive_counts, p_message_ids, p_commit);
begin
  perform skipmq.refresh_groups(p_queue_id, v_groups);
  return v_count;
end $$;
