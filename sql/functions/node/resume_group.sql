-- Does: has receives from a queue give the messages of a paused group again; returns whether it was paused.
-- Called by: the ResumeMessageGroup action; SQL users.
-- Locks, in order: row of paused_group.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: paused_group_pkey, generation_pkey.
-- Routed: to the partition of p_queue_id.
create function skipmq.resume_group(p_queue_id bigint, p_group_id text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from skipmq.paused_group g where g.queue_id = p_queue_id and g.group_id = p_group_id;
  if found then
    return true;
  end if;
  perform skipmq.check_generation(p_queue_id);
  return false;
end $$;
