-- Does: stores one message in the FIFO queue of that name, within the caller's transaction; gives its id,
--   or that of the first sending of the last five minutes under the same deduplication id.
-- Called by: SQL users.
-- Locks, in order: those of hold_queue, then of send_fifo_messages.
-- Raises: what check_message and hold_queue raise; SQ001 when there is no such queue, SQ008 when a group is missing, or
--   a deduplication id where the queue does not take it from the body.
-- Relies on index: queue_pkey, and those of send_fifo_messages.
create function skipmq.send_fifo_message(
  p_queue text,
  p_body text,
  p_group_id text,
  p_deduplication_id text default null,
  p_attributes jsonb default null,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id integer := skipmq.hold_queue(p_queue, p_account, p_region);
  v_by_content boolean;
  v_id uuid;
begin
  perform skipmq.check_message(v_queue_id, p_body, p_attributes);
  select q.content_based_deduplication into v_by_content from skipmq.queue q where q.queue_id = v_queue_id;
  if p_deduplication_id is null and v_by_content then
    p_deduplication_id := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
  end if;
  if p_group_id is null or p_group_id !~ '^[!-~]{1,128}$' then
    raise exception 'The request must contain the parameter MessageGroupId: alphanumeric and punctuation characters, 1 to 128 in length.'
      using errcode = 'SQ008';
  elsif p_deduplication_id is null or p_deduplication_id !~ '^[!-~]{1,128}$' then
    raise exception 'The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly'
      using errcode = 'SQ008';
  end if;
  select s.message_id into v_id
  from skipmq.send_fifo_messages(
    v_queue_id, array[gen_random_uuid()], array[p_body], array[p_attributes::text], array[p_group_id],
    array[p_deduplication_id], array[null::text], session_user::text) s;
  return v_id;
end $$;
