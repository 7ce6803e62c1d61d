-- Does: deletes messages that are not in flight, and writes history rows as a delete by receipt does. An id of null
--   stands for the delayed message of a standard queue with that message id. Returns an outcome for each, by its place in p_ids: deleted, missing or in-flight.
-- Called by: the DeletePickedMessages action; SQL users.
-- Locks, in order: for FIFO group rows by number; message rows by id.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: queue_id, and those of delayed_ids, lock_picked and settle; for FIFO those of lock_groups and refresh_groups.
-- Routed: to the partition of p_queue_id.
create function skipmq.delete_picked_messages(p_queue_id bigint, p_ids bigint[], p_message_ids uuid[])
returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_fifo boolean;
  v_groups bigint[];
  v_free bigint[];
  v_held bigint[];
  v_tids tid[];
begin
  v_fifo := skipmq.check_generation(p_queue_id);
  if array_position(p_ids, null) is not null then
    p_ids := array(
      select coalesce(u.id, u.delayed)
      from unnest(p_ids, skipmq.delayed_ids(p_queue_id, p_message_ids, v_now)) with ordinality u (id, delayed, place)
      order by u.place);
  end if;
  if v_fifo then
    v_groups := skipmq.lock_groups(p_queue_id, p_ids);
  end if;
  select l.free, l.held, l.tids into v_free, v_held, v_tids from skipmq.lock_picked(p_queue_id, p_ids, p_message_ids, v_now) l;
  if v_free is not null then
    perform skipmq.settle(v_tids, 'deleted');
    if v_fifo then
      perform skipmq.refresh_groups(p_queue_id, v_groups);
    end if;
  end if;
  return query
  select u.place, case
    when u.id = any (v_free) then 'deleted' when u.id = any (v_held) then 'in-flight' else 'missing' end
  from unnest(p_ids) with ordinality u (id, place)
  order by u.place;
end $$;
