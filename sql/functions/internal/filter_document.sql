-- Does: returns what filter policies match: the body, if it is a JSON object, or the attributes of a message as an object of
--   texts, numbers, and the elements of String.Array.
-- Called by: publish_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.filter_document(p_body text, p_attributes text) returns jsonb
language plpgsql immutable
as $$
declare
  v_document jsonb := '{}';
  v_attribute record;
  v_value jsonb;
begin
  if p_body is not null then
    v_document := p_body;
    return case when jsonb_typeof(v_document) = 'object' then v_document end;
  end if;
  for v_attribute in
    select a.key, a.value ->> 'DataType' as type, a.value -> 'StringValue' as value
    from jsonb_each(p_attributes::jsonb) a
    where a.value ? 'StringValue'
  loop
    v_value := v_attribute.value;
    begin
      if v_attribute.type like 'Number%' then
        v_value := to_jsonb((v_value #>> '{}')::numeric);
      elsif v_attribute.type like 'String.Array%' then
        v_value := (v_value #>> '{}')::jsonb;
      end if;
    exception
      when data_exception then
        null; -- It is matched as a text.
    end;
    v_document := v_document || jsonb_build_object(v_attribute.key, v_value);
  end loop;
  return v_document;
exception
  when data_exception or program_limit_exceeded or statement_too_complex then
    return null;
end $$;
