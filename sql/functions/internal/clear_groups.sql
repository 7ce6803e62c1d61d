-- Does: clears the heads of those given groups, which the caller has locked, that yielded no message: they are empty, or
--   their first message is in flight, delayed, expired or was received too often. Returns the effort: 1 for each
--   message cleared, 5 for each group.
-- Called by: claim_fifo_messages, when its claim finds too few messages.
-- Locks, in order: those of clear_group.
-- Raises: nothing.
-- Relies on index: message_group_pkey, and those of clear_group.
create function skipmq.clear_groups(
  p_queue_id bigint, p_groups bigint[], p_now timestamptz, p_horizon timestamptz, p_most integer, p_target bigint
) returns integer
language plpgsql volatile
as $$
begin
  return coalesce((
    select sum(5 + skipmq.clear_group(p_queue_id, g.group_no, p_now, p_horizon, p_most, p_target))
    from skipmq.message_group g
    where g.queue_id = p_queue_id and g.group_no = any (p_groups) and g.available_at <= p_now), 0);
end $$;
