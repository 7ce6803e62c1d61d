-- Does: keeps p_reason with a received message as its attribute FailureReason and among its failures, as p_receiver's (null:
--   this session's); returns false when the message was settled,
--   or received again after the receive named by p_receive_count.
-- Called by: the FailMessage action; SQL users.
-- Locks, in order: for FIFO group row by number; message row.
-- Raises: nothing.
-- Routed: to the partition of p_queue_id.
-- Relies on index: message_pkey, and those of lock_groups.
create function skipmq.record_failure(
  p_queue_id bigint, p_id bigint, p_receive_count integer, p_message_id uuid, p_reason text, p_receiver text default null
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- Of a standard queue there are none.
  perform skipmq.lock_groups(p_queue_id, array[p_id]);
  update skipmq.message m set
    attributes = skipmq.note_failure(m.attributes, p_reason),
    failures = skipmq.add_failure(m.failures, m.sent_at, m.receive_count - m.receive_base, p_reason, p_receiver)
  where m.id = p_id and m.queue_id = p_queue_id and m.receive_count = p_receive_count
    and m.message_id = p_message_id;
  return found;
end $$;
