-- Does: checks a message that comes by SQL, as the nodes check what comes over HTTP.
-- Called by: send_message, send_fifo_message.
-- Locks, in order: none.
-- Raises: SQ008 when body and attributes are longer than the queue takes, the body is empty or the attributes
--   are not what SQS takes; SQ009 when the body has characters that XML 1.0 does not allow.
-- Relies on index: queue_id.
create function skipmq.check_message(p_queue_id integer, p_body text, p_attributes jsonb) returns void
language plpgsql stable
as $$
declare
  v_most integer;
begin
  select q.maximum_message_size into v_most from skipmq.queue q where q.queue_id = p_queue_id;
  if octet_length(p_body) + coalesce(octet_length(p_attributes::text), 0) > v_most then
    raise exception 'One or more parameters are invalid. Reason: Message must be shorter than % bytes.', v_most
      using errcode = 'SQ008';
  elsif p_body is null or p_body = '' then
    raise exception 'The request must contain the parameter MessageBody.' using errcode = 'SQ008';
  end if;
  if p_body ~ E'[\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f\\ufffe\\uffff]' then
    raise exception 'Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF'
      using errcode = 'SQ009';
  end if;
  if jsonb_typeof(p_attributes) <> 'object' or exists (
    select
    from jsonb_each(case when jsonb_typeof(p_attributes) = 'object' then p_attributes end) a
    where jsonb_typeof(a.value) <> 'object'
      or jsonb_typeof(a.value -> 'DataType') is distinct from 'string'
      or jsonb_typeof(coalesce(a.value -> 'StringValue', a.value -> 'BinaryValue'))
        is distinct from 'string')
  then
    raise exception 'Message attributes are {"name": {"DataType": "String", "StringValue": "value"}}.'
      using errcode = 'SQ008';
  end if;
end $$;
