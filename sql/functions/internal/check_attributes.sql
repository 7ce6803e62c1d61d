-- Does: checks the attributes of messages sent by SQL as nodes check HTTP requests; returns them as nodes store them (null
--   for none), and the bytes that names, types and values count towards each message's limit.
-- Called by: check_messages.
-- Locks, in order: none.
-- Raises: with the nodes' error texts, SQ007 for lists; SQ008 for more than ten attributes and for invalid names, types,
--   values and characters; SQ011 without a type; SQ012 for JSON of another form and for binary values that are not
--   base64; 22P02, 22P05 for text that PostgreSQL does not accept as JSON.
-- Relies on index: none.
--
-- One statement for all messages, since starting it is half of the cost of one message.
create function skipmq.check_attributes(p_attributes text[], out stored text[], out bytes bigint[])
language plpgsql immutable
as $$
declare
  v_error text;
begin
  select
    array_agg('{' || g.stored || '}' order by g.place), array_agg(coalesce(g.bytes, 0) order by g.place),
    min(coalesce(g.refusal, case when g.count > 10 then
      format('SQ008 Number of message attributes [%s] exceeds the allowed maximum [10].', g.count) end))
  into stored, bytes, v_error
  from (
    select
      a.place, count(a.name) as count,
      string_agg(
        to_json(a.name) || case
          when a.text is null then ':{"BinaryValue":"' || a.binary || '"'
          else ':{"StringValue":' || to_json(a.text) end || ',"DataType":' || to_json(a.type) || '}', ',') as stored,
      sum(octet_length(a.name) + octet_length(a.type) + coalesce(
        octet_length(a.text), octet_length(a.binary) / 4 * 3 - length(a.binary) + length(rtrim(a.binary, '=')))) as bytes,
      min(case
        when a.name is null then
          case when jsonb_typeof(a.given) not in ('object', 'null') then
            'SQ012 Message attributes are {"name": {"DataType": "String", "StringValue": "value"}}.' end
        when jsonb_typeof(a.value) <> 'object' or jsonb_typeof(a.value -> 'DataType') not in ('string', 'null')
          or jsonb_typeof(a.value -> 'StringValue') not in ('string', 'null')
          or jsonb_typeof(a.value -> 'BinaryValue') not in ('string', 'null') then
          'SQ012 Message attributes are {"name": {"DataType": "String", "StringValue": "value"}}.'
        when a.type is null then
          'SQ011 The request must contain the parameter DataType.'
        when a.binary !~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$' then
          'SQ012 The value of a blob is not base64.'
        when coalesce(a.value ->> 'StringListValues', a.value ->> 'BinaryListValues') is not null then
          'SQ007 Message attribute list values in SendMessage operation are not supported.'
        when not skipmq.is_attribute_name(a.name) then format(
          'SQ008 The message attribute name ''%s'' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters.',
          skipmq.shown(a.name))
        when a.type = '' then format(
          'SQ008 The message attribute ''%s'' must contain a non-empty message attribute type.', skipmq.shown(a.name))
        when a.kind not in ('String', 'Number', 'Binary') then format(
          'SQ008 The message attribute ''%s'' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.',
          skipmq.shown(a.name))
        when length(a.type) > 256 then format(
          'SQ008 The type of message (user) attribute ''%s'' can be at most 256 characters long.', skipmq.shown(a.name))
        when coalesce(case a.kind when 'Binary' then a.binary else a.text end, '') = '' or num_nulls(a.text, a.binary) = 0
          then format(
          'SQ008 Message (user) attribute ''%s'' must contain a non-empty value of type ''%s''.',
          skipmq.shown(a.name), a.kind)
        when skipmq.has_forbidden_character(a.type || coalesce(a.text, '')) then
          'SQ008 Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF'
        when a.kind = 'Number' and not skipmq.is_number(a.text) then format(
          'SQ008 Can''t cast the value of message (user) attribute ''%s'' to a number.', skipmq.shown(a.name))
      end) as refusal
    from (
      select
        v.*, v.value ->> 'DataType' as type, split_part(v.value ->> 'DataType', '.', 1) as kind,
        v.value ->> 'StringValue' as text, v.value ->> 'BinaryValue' as binary
      from (
        select n.place, n.given, n.name, n.given -> n.name as value
        from (
          -- The series returns a row where an object has no names.
          select
            m.place, m.given, generate_series(1, 1),
            jsonb_object_keys(case when jsonb_typeof(m.given) = 'object' then m.given end) as name
          from (
            select u.place, u.attributes::jsonb as given
            from unnest(p_attributes) with ordinality u (attributes, place)
            offset 0 -- Prevents inlining, which would evaluate the expressions several times.
          ) m
        ) n
        offset 0
      ) v
      offset 0
    ) a
    group by a.place
  ) g;
  if v_error is not null then
    raise exception '%', substr(v_error, 7) using errcode = left(v_error, 5);
  end if;
end $$;
