-- Does: moves messages that are not in flight to another queue of the same type, where each becomes a new message, as in
--   resend. Returns an outcome for each, by its place in p_ids: moved, missing or in-flight.
-- Called by: the MoveMessages action; SQL users.
-- Locks, in order: queue row of the target (key share, so that it is neither purged nor deleted); for FIFO group rows by
--   number; message rows by id; for FIFO those of append_fifo.
-- Raises: SQ005 when one of the generations does not exist, SQ007 when the queues have different types.
-- Relies on index: queue_id, and those of lock_picked and resend; for FIFO those of lock_groups, append_fifo and
--   refresh_groups.
-- Routed: to the partition of p_queue_id, where p_target must be.
create function skipmq.move_messages(p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_target bigint)
returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_fifo boolean;
  v_target boolean;
  v_groups bigint[];
  v_free bigint[];
  v_held bigint[];
  v_tids tid[];
begin
  select q.fifo into v_fifo from skipmq.queue q where q.queue_id = p_queue_id;
  select q.fifo into v_target from skipmq.queue q where q.queue_id = p_target for key share;
  if v_fifo is null or v_target is null then
    raise exception 'queue generation % or % does not exist', p_queue_id, p_target using errcode = 'SQ005';
  elsif v_fifo <> v_target then
    raise exception 'Messages can only be moved between queues of the same type.' using errcode = 'SQ007';
  end if;
  if v_fifo then
    v_groups := skipmq.lock_groups(p_queue_id, p_ids);
  end if;
  select l.free, l.held, l.tids into v_free, v_held, v_tids from skipmq.lock_picked(p_queue_id, p_ids, p_message_ids, v_now) l;
  if v_free is null then
    null;
  elsif v_fifo then
    perform skipmq.append_fifo(p_queue_id, v_free, array_fill(p_target, array[cardinality(v_free)]), 'redriven');
    perform skipmq.refresh_groups(p_queue_id, v_groups);
  else
    perform skipmq.resend(p_queue_id, v_tids, array_fill(p_target, array[cardinality(v_tids)]), v_now);
  end if;
  return query
  select u.place, case
    when u.id = any (v_free) then 'moved' when u.id = any (v_held) then 'in-flight' else 'missing' end
  from unnest(p_ids) with ordinality u (id, place)
  order by u.place;
end $$;
