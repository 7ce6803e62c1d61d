-- Does: sets a queue's policy if it still is p_old; returns whether it was. A caller that changes a part of the policy
--   starts again on false, so that no concurrent change is lost.
-- Called by: the AddPermission and RemovePermission actions; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: queue_id.
-- Routed: to the partition of p_queue_id.
create function skipmq.replace_policy(p_queue_id bigint, p_old text, p_new text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.queue q set policy = p_new, modified_at = skipmq.clock()
  where q.queue_id = p_queue_id and q.policy = p_old;
  if found then
    return true;
  end if;
  perform skipmq.check_generation(p_queue_id);
  return false;
end $$;
