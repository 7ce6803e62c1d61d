-- Does: undoes the receive of a message of the named queue, standard or FIFO: makes it visible immediately and does not
--   count the receive; returns false when it is not in flight by the receive named by p_receive_count.
-- Called by: SQL users.
-- Locks, in order: those of granted_queue; group row, message row.
-- Raises: what granted_queue raises; SQ001 when there is no such queue.
-- Relies on index: queue_pkey, message_pkey, and those of lock_groups and return_fifo_messages.
-- Routed: to the partition of p_queue.
create function skipmq.return_message(
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
  v_fifo boolean := p_queue collate "C" like '%.fifo';
  v_queue_id bigint := skipmq.granted_queue('receive', p_queue, p_account, p_region);
begin
  if v_fifo then
    perform skipmq.lock_groups(v_queue_id, array[p_id]);
  end if;
  -- A receive must not be undone twice: the count would be less than the receives.
  perform from skipmq.message m
  where m.id = p_id and m.queue_id = v_queue_id and m.receive_count = p_receive_count
    and m.message_id = p_message_id
    and m.receive_count > m.receive_base and m.visible_at > skipmq.clock()
  for no key update;
  if not found then
    return false;
  elsif v_fifo then
    return skipmq.return_fifo_messages(v_queue_id, array[p_id], array[p_receive_count], array[p_message_id]) = 1;
  end if;
  return skipmq.return_messages(v_queue_id, array[p_id], array[p_receive_count], array[p_message_id]) = 1;
end $$;
