-- Does: checks the limit and the visibility timeout of a receive by SQL as nodes check HTTP requests; returns the limit,
--   1 by default.
-- Called by: receive_messages, receive_fifo_messages and receive_fifo_attempt, for SQL users.
-- Locks, in order: none.
-- Raises: SQ008 when a value is out of range.
-- Relies on index: none.
create function skipmq.check_receive(p_limit integer, p_visibility_timeout integer) returns integer
language plpgsql immutable
as $$
begin
  if p_limit not between 1 and 10 then
    raise exception 'Value % for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.',
      p_limit using errcode = 'SQ008';
  end if;
  perform skipmq.check_timeouts(array[p_visibility_timeout]);
  return coalesce(p_limit, 1);
end $$;
