-- Does: removes the tags with the given keys from a queue; unknown keys are ignored.
-- Called by: the UntagQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: queue_id.
-- Routed: to the partition of p_queue_id.
create function skipmq.untag_queue(p_queue_id bigint, p_keys text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.queue q set tags = q.tags - p_keys where q.queue_id = p_queue_id;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
end $$;
