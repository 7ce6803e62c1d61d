-- Does: stores one message in the standard queue of that name, within the caller's transaction.
-- Called by: SQL users: `insert into orders …; select skipmq.send_message('orders', …); commit;`.
-- Locks, in order: none.
-- Raises: SQ001 when there is no such queue; SQ008 when body and attributes are longer than it takes, or a
--   parameter is not what SQS takes; SQ009 when the body has characters that XML 1.0 does not allow.
-- Relies on index: queue_pkey, queue_id.
create function skipmq.send_message(
  p_queue text,
  p_body text,
  p_attributes jsonb default null,
  p_delay_seconds integer default null,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id integer := skipmq.queue_id(p_queue, p_account, p_region);
  v_message_id uuid := gen_random_uuid();
  v_most integer;
begin
  select q.maximum_message_size into v_most from skipmq.queue q where q.queue_id = v_queue_id;
  if octet_length(p_body) + coalesce(octet_length(p_attributes::text), 0) > v_most then
    raise exception 'One or more parameters are invalid. Reason: Message must be shorter than % bytes.', v_most
      using errcode = 'SQ008';
  elsif p_body is null or p_body = '' then
    raise exception 'The request must contain the parameter MessageBody.' using errcode = 'SQ008';
  elsif p_delay_seconds not between 0 and 900 then
    raise exception 'Value % for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.',
      p_delay_seconds using errcode = 'SQ008';
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
  perform skipmq.send_messages(
    v_queue_id, array[v_message_id], array[p_body], array[p_attributes::text], array[p_delay_seconds],
    array[null::text], array[null::text], session_user::text);
  return v_message_id;
end $$;
