-- Does: removes messages from a queue, as a purge does, without history rows; notes their message ids in erased_message;
--   returns their number.
-- Called by: `skipmq analytics forget`, as the owner.
-- Locks, in order: group rows by number (a FIFO queue), messages by id.
-- Raises: nothing.
-- Relies on index: message_pkey, message_group_pkey, history_xid, erased_message_pkey.
-- Routed: to the partition of p_queue_id.
--
-- Runs with the caller's rights, so that only the owner can erase.
create function skipmq.erase_messages(p_queue_id bigint, p_ids bigint[], p_message_ids uuid[]) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_groups bigint[] := skipmq.lock_groups(p_queue_id, p_ids);
  v_count integer;
begin
  insert into skipmq.erased_message (message_id, queue_id, erased_at)
  select m.message_id, m.queue_id, skipmq.clock() from skipmq.message m where m.id = any (p_ids) and m.message_id = any (p_message_ids) and m.queue_id = p_queue_id
  on conflict do nothing;
  v_count := skipmq.settle(
    array(
      select m.ctid from skipmq.message m
      where m.id = any (p_ids) and m.message_id = any (p_message_ids) and m.queue_id = p_queue_id
      order by m.id
      for update),
    'purged');
  delete from skipmq.history h
  where h.id = any (p_ids) and h.xid = pg_current_xact_id()::text::bigint;
  if v_groups is not null then
    perform skipmq.refresh_groups(p_queue_id, v_groups);
  end if;
  return v_count;
end $$;
