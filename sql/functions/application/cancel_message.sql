-- Does: deletes a delayed message of the named standard queue by its message id, in the caller's transaction; returns whether it was
--   delayed still.
-- Called by: SQL users.
-- Locks, in order: those of granted_queue, then of delete_picked_messages.
-- Raises: what granted_queue and delete_picked_messages raise.
-- Relies on index: those of delete_picked_messages.
-- Routed: to the partition of p_queue.
create function skipmq.cancel_message(
  p_queue text,
  p_message_id uuid,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint := skipmq.granted_queue('send', p_queue, p_account, p_region);
begin
  return exists (
    select from skipmq.delete_picked_messages(v_queue_id, array[null::bigint], array[p_message_id]) d
    where d.outcome = 'deleted');
end $$;
