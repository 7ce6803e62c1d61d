-- Does: takes the tags of these keys from a queue; a key that it does not have is ignored.
-- Called by: the UntagQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when no queue has this generation.
-- Relies on index: queue_id.
create function skipmq.untag_queue(p_queue_id integer, p_keys text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.queue q set tags = q.tags - p_keys where q.queue_id = p_queue_id;
  if not found then
    raise exception 'no queue has the generation %', p_queue_id using errcode = 'SQ005';
  end if;
end $$;
