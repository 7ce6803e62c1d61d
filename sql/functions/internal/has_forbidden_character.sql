-- Does: returns whether a text has characters that XML 1.0, and therefore SQS, does not allow.
-- Called by: check_message, check_attributes.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.has_forbidden_character(p_text text) returns boolean
language sql immutable
as $$
  select p_text ~ '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]'
$$;
