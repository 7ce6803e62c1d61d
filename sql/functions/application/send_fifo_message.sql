-- Does: stores one message in the named FIFO queue, in the caller's transaction; returns its id, or that of the message
--   sent in the last five minutes with the same deduplication id.
-- Called by: SQL users.
-- Locks, in order: those of granted_queue, then of send_fifo_messages.
-- Raises: what granted_queue and send_fifo_messages raise; SQ001 when the queue does not exist.
-- Relies on index: queue_pkey, and those of send_fifo_messages.
-- Routed: to the partition of p_queue.
create function skipmq.send_fifo_message(
  p_queue text,
  p_body text,
  p_group_id text,
  p_deduplication_id text default null,
  p_attributes jsonb default null,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint := skipmq.granted_queue('send', p_queue, p_account, p_region);
  v_id uuid;
begin
  select s.message_id into v_id
  from skipmq.send_fifo_messages(
    v_queue_id, array[gen_random_uuid()], array[p_body], array[p_attributes::text], array[p_group_id],
    array[p_deduplication_id], array[null::text], session_user::text) s;
  return v_id;
end $$;
