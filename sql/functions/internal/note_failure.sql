-- Does: returns the attributes of a message with p_reason as its attribute FailureReason: up to 1,000 characters, with
--   spaces for those that SQS does not allow. Without a reason they are returned unchanged.
-- Called by: record_failure, change_message_visibility, dead_letter_message.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.note_failure(p_attributes text, p_reason text) returns text
language sql immutable
as $$
  select case when p_reason <> '' then (coalesce(p_attributes, '{}')::jsonb || jsonb_build_object(
    'FailureReason', jsonb_build_object(
      'DataType', 'String',
      -- The characters of has_forbidden_character.
      'StringValue', regexp_replace(left(p_reason, 1000), '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]', ' ', 'g'))))::text
  else p_attributes end
$$;
