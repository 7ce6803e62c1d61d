-- Does: returns whether one of these messages is in a standard queue, sent since p_since; waits for the first attempt of
--   the send to end.
-- Called by: send_messages, for a retry.
-- Locks, in order: advisory lock of the first message id.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.is_sent(p_queue_id bigint, p_message_ids uuid[], p_since timestamptz) returns boolean
language plpgsql volatile
as $$
begin
  perform pg_advisory_xact_lock(uuid_hash_extended(p_message_ids[1], 0));
  -- A separate statement, which sees what was committed during the wait.
  return exists (
    select from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = any (skipmq.shards(p_queue_id)) and m.group_no is null
      and m.visible_at >= p_since and m.message_id = any (p_message_ids));
end $$;
