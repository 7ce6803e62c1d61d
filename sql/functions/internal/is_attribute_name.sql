-- Does: returns whether a text is a valid name of a message attribute.
-- Called by: check_attributes.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Without backslashes in its literals, as is_number.
create function skipmq.is_attribute_name(p_text text) returns boolean
language sql immutable
as $$
  select length(p_text) <= 256 and p_text !~* '^(aws|amazon)[.]'
    and case when octet_length(p_text) = length(p_text) then p_text else skipmq.latin(p_text) end
      ~ '^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$'
$$;
