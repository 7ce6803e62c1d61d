-- Does: lists the accounts and regions that have queues, with their number: queues of a name, or all; of an account, or
--   of all.
-- Called by: queue_id and commands, for a name that was not found; the console's menu of accounts and regions.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none; it reads all queues.
-- Routed: by sql/router/, in all partitions.
create function skipmq.queue_places(p_name text, p_account text default null, p_limit integer default 1000)
returns table (account text, region text, queues bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.account, q.region, count(*) from skipmq.queue q
  where (p_name is null or q.name = p_name) and (p_account is null or q.account = p_account)
  group by q.account, q.region order by q.account, q.region limit p_limit
$$;
