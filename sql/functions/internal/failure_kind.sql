-- Does: returns the kind of failure in a message's attribute FailureReason: its first line, up to 100
--   characters, with # for numbers and UUIDs; null without the attribute.
-- Called by: message_failures, matches_filter, new_failures, note_failure_kinds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.failure_kind(p_attributes text) returns text
language sql immutable
as $$
  select case when strpos(p_attributes, '"FailureReason"') > 0 then
    nullif(left(regexp_replace(
      split_part(left(p_attributes::jsonb -> 'FailureReason' ->> 'StringValue', 200), E'\n', 1),
      '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9]+', '#', 'g'), 100), '') end
$$;
