-- Does: returns whether a message matches the further members of a filter: path (a JSON path that selects a value other than
--   false or null in the body), receives (the minimum), sent_before, and failure (its kind; empty: none). A body that is
--   no JSON object or list matches no path.
-- Called by: match_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.matches_filter(
  p_body text, p_attributes text, p_receives integer, p_sent_at timestamptz, p_filter jsonb
) returns boolean
language plpgsql stable
as $$
begin
  if p_receives < (p_filter ->> 'receives')::integer or p_sent_at >= (p_filter ->> 'sent_before')::timestamptz
    or p_filter ? 'failure' and coalesce(skipmq.failure_kind(p_attributes), '') <> p_filter ->> 'failure' then
    return false;
  elsif p_filter ->> 'path' is null then
    return true;
  elsif p_body !~ '^\s*[{\[]' then
    return false;
  end if;
  return exists (
    select from jsonb_path_query(p_body::jsonb, (p_filter ->> 'path')::jsonpath, silent => true) v (value)
    where v.value not in ('false', 'null'));
exception
  -- Not JSON, or JSON that jsonb does not take.
  when data_exception or program_limit_exceeded or statement_too_complex then
    return false;
end $$;
