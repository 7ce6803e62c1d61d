-- Does: deletes a queue immediately; the janitor settles its messages, whose number it returns.
-- Called by: the DeleteQueue action; SQL users.
-- Locks, in order: advisory lock of the generation (waits for SQL users' transactions that sent to it), queue row,
--   generation row.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: queue_id, generation_pkey, and those of count_all.
-- Routed: to the partition of p_queue_id.
create function skipmq.delete_queue(p_queue_id bigint) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_mode text;
begin
  perform pg_advisory_xact_lock(hashtext('skipmq.queue'), (p_queue_id & 1023)::integer);
  delete from skipmq.queue q where q.queue_id = p_queue_id returning q.history_mode into v_mode;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  delete from skipmq.paused_group g where g.queue_id = p_queue_id;
  update skipmq.generation g
  set retired_at = skipmq.clock(), retired_as = 'deleted', history_mode = v_mode
  where g.queue_id = p_queue_id;
  return greatest(skipmq.count_all(p_queue_id), 0);
end $$;
