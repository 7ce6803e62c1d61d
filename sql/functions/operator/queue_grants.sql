-- Does: lists the grants of queues to roles, without those of roles that were dropped or renamed, by role, account, region and queue.
-- Called by: `skipmq sql list`, as the owner.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: not: commands run it on each partition itself.
--
-- Not granted to nodes.
create function skipmq.queue_grants()
returns table (
  role text, account text, region text, queue text, may_send boolean, may_receive boolean, granted_at timestamptz,
  granted_by text
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select r.rolname, g.account, g.region, g.queue, g.may_send, g.may_receive, g.granted_at, g.granted_by
  from skipmq.queue_grant g
  join pg_roles r on r.oid = g.role and r.rolname = g.role_name
  order by r.rolname, g.account, g.region, g.queue
$$;
