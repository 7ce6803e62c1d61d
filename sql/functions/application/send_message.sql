-- Does: stores one message in the named standard queue, in the caller's transaction; p_group_id is its tenant in a fair
--   queue, p_deliver_at the time of its delivery, instead of p_delay_seconds. With p_deduplication_id it stores none while the queue
--   knows the id, for its DeduplicationSeconds. p_priority (0 to 9) sets the message attribute SkipMQ.Priority. Returns its id: that
--   of the first message with the deduplication id.
-- Called by: SQL users: `insert into orders …; select skipmq.send_message('orders', …); commit;`.
-- Locks, in order: those of granted_queue, then of send_messages or send_unique_messages.
-- Raises: what granted_queue, send_messages and send_unique_messages raise; SQ001 when the queue does not exist, SQ008 for a
--   priority that cannot be.
-- Relies on index: queue_pkey, queue_id.
-- Routed: to the partition of p_queue.
create function skipmq.send_message(
  p_queue text,
  p_body text,
  p_attributes jsonb default null,
  p_delay_seconds integer default null,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1'),
  p_group_id text default null,
  p_deduplication_id text default null,
  p_priority integer default null,
  p_deliver_at timestamptz default null
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint := skipmq.granted_queue('send', p_queue, p_account, p_region);
  v_message_id uuid := gen_random_uuid();
begin
  if p_priority not between 0 and 9 then
    raise exception 'Value % for parameter p_priority is invalid. Reason: A priority is a number from 0 to 9.', p_priority
      using errcode = 'SQ008';
  elsif p_priority is not null then
    p_attributes := coalesce(p_attributes, '{}') || jsonb_build_object(
      'SkipMQ.Priority', jsonb_build_object('DataType', 'Number', 'StringValue', p_priority::text));
  end if;
  if p_deliver_at is not null then
    if p_delay_seconds is not null then
      raise exception 'Only one of p_delay_seconds and p_deliver_at can be given.' using errcode = 'SQ008';
    end if;
    p_delay_seconds :=
      least(greatest(ceil(extract(epoch from p_deliver_at) - extract(epoch from skipmq.clock())), 0), 2147483647)::integer;
  end if;
  if p_deduplication_id is not null then
    select s.message_id into v_message_id
    from skipmq.send_unique_messages(
      v_queue_id, array[v_message_id], array[p_body], array[p_attributes::text], array[p_delay_seconds],
      array[p_group_id], array[null::text], session_user::text, array[p_deduplication_id]) s;
    return v_message_id;
  end if;
  perform skipmq.send_messages(
    v_queue_id, array[v_message_id], array[p_body], array[p_attributes::text], array[p_delay_seconds],
    array[p_group_id], array[null::text], session_user::text);
  return v_message_id;
end $$;
