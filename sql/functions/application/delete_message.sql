-- Does: deletes a message of the named queue, standard or FIFO, if its receive count still is p_receive_count and its
--   message_id p_message_id; returns
--   false when it was settled before or received again.
-- Called by: SQL users.
-- Locks, in order: those of granted_queue, then of delete_messages or delete_fifo_messages.
-- Raises: what granted_queue raises; SQ001 when the queue does not exist, SQ005 when it is purged or deleted concurrently.
-- Relies on index: queue_pkey, and those of the functions it calls.
-- Routed: to the partition of p_queue.
create function skipmq.delete_message(
  p_queue text,
  p_id bigint,
  p_receive_count integer,
  p_message_id uuid,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint := skipmq.granted_queue('receive', p_queue, p_account, p_region);
begin
  if p_queue collate "C" like '%.fifo' then
    return (
      select d.outcome = 'deleted'
      from skipmq.delete_fifo_messages(v_queue_id, array[p_id], array[p_receive_count], array[p_message_id]) d);
  end if;
  return skipmq.delete_messages(v_queue_id, array[p_id], array[p_receive_count], array[p_message_id]) = 1;
end $$;
