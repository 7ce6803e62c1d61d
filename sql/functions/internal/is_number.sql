-- Does: returns whether a text is a number that SQS accepts: at most 38 digits, between 10^-128 and 10^126.
-- Called by: check_attributes.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Without backslashes in its literals, whose meaning depends on standard_conforming_strings.
create function skipmq.is_number(p_text text) returns boolean
language plpgsql immutable
as $$
declare
  v_parts text[];
  v_digits text;
  v_significant text;
  v_exponent text;
begin
  -- The common case.
  if p_text ~ '^[+-]?[0-9]{1,38}$' then
    return true;
  elsif length(p_text) > 512 then
    return false;
  end if;
  v_parts := regexp_match(p_text, '^[+-]?([0-9]*)[.]?([0-9]*)(?:[eE]([+-]?[0-9]+))?$');
  v_digits := v_parts[1] || v_parts[2];
  v_significant := ltrim(v_digits, '0');
  v_exponent := coalesce(v_parts[3], '0');
  -- An exponent with more digits is out of range, and too large for bigint.
  if v_digits is null or v_digits = '' or length(ltrim(v_exponent, '+-0')) > 18 then
    return false;
  end if;
  return length(rtrim(v_significant, '0')) <= 38 and (
    v_significant = ''
    or length(v_parts[1]) - length(v_digits) + length(v_significant) - 1 + v_exponent::bigint between -128 and 126);
end $$;
