-- Does: returns the paused groups of a queue, by name after p_after, or the group p_group alone: until when, since when and by whom.
-- Called by: the ListPausedMessageGroups action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: paused_group_pkey.
-- Routed: to the partition of p_queue_id.
create function skipmq.paused_groups(
  p_queue_id bigint, p_limit integer default 1000, p_after text default '', p_group text default null
)
returns table (group_id text, until timestamptz, paused_at timestamptz, paused_by text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select g.group_id, g.until, g.paused_at, g.paused_by
  from skipmq.paused_group g
  where g.queue_id = p_queue_id and g.group_id > p_after and (p_group is null or g.group_id = p_group)
    and (g.until is null or g.until > skipmq.clock())
  order by g.group_id
  limit p_limit
$$;
