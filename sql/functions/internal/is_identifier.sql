-- Does: returns whether a text is a valid MessageGroupId, MessageDeduplicationId or ReceiveRequestAttemptId.
-- Called by: check_message, receive_fifo_attempt.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.is_identifier(p_text text) returns boolean
language sql immutable
as $$
  select p_text ~ '^[!-~]+$' and octet_length(p_text) <= 128
$$;
