-- Does: returns a client's value as error texts show it, truncated to 200 characters.
-- Called by: check_message, check_attributes, receive_fifo_attempt.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.shown(p_text text) returns text
language sql immutable
as $$
  select case when length(p_text) <= 200 then p_text else left(p_text, 197) || '...' end
$$;
