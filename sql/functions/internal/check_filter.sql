-- Does: checks the further members of a filter of messages (matches_filter).
-- Called by: start_message_task, search_messages.
-- Locks, in order: none.
-- Raises: SQ008 when one is invalid.
-- Relies on index: none.
--
-- A JSON path may have what reads a body in linear time: members, subscripts, *, one **, one filter, and comparisons with
-- literals.
create function skipmq.check_filter(p_filter jsonb) returns void
language plpgsql immutable
as $$
declare
  v_path text := p_filter ->> 'path';
  v_literal text := '("([^"\\]|\\.)*"|-?[0-9]+(\.[0-9]+)?|true|false|null)';
  v_steps text := '(\.\*\*|\.\*|\.[[:alpha:]_][[:alnum:]_]*|\."([^"\\]|\\.)*"|\[(\*|[0-9]+|last)\])*';
  v_compared text := '\s*(==|!=|<>|<=|>=|<|>|starts with)\s*' || v_literal;
  v_refusal text := 'The JSON path is invalid. It may have members, subscripts, *, one **, one filter and comparisons with literals:'
    ' $.lines[*] ? (@.sku == "S1" && @.count > 3).';
  v_condition text := '(@' || v_steps || v_compared || '|exists\s*\(\s*@' || v_steps || '\s*\))';
begin
  if length(v_path) > 256 or v_path ~ '\*\*.*\*\*' or v_path !~ (
    '^\s*\$' || v_steps || '(\s*\?\s*\(\s*' || v_condition || '(\s*(&&|\|\|)\s*' || v_condition || ')*\s*\)'
    || v_steps || ')?(' || v_compared || ')?\s*$') then
    raise exception using errcode = 'SQ008', message = v_refusal;
  elsif (p_filter ->> 'receives')::integer < 1 then
    raise exception 'The minimum receive count of a filter must be at least 1.' using errcode = 'SQ008';
  elsif length(p_filter ->> 'failure') > 256 then
    raise exception 'A filter must have at most 256 characters.' using errcode = 'SQ008';
  end if;
  perform v_path::jsonpath;
exception
  -- Such as a text where PostgreSQL takes a number.
  when syntax_error or data_exception then
    raise exception using errcode = 'SQ008', message = v_refusal;
end $$;
