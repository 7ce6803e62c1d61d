-- Does: lists the names of at most p_limit queues after p_after, in order.
-- Called by: the ListQueues action, `skipmq queue list`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey.
-- Routed: to all partitions; the rows are merged, order by 1 limit p_limit.
create function skipmq.list_queues(
  p_account text,
  p_region text,
  p_prefix text default '',
  p_after text default '',
  p_limit integer default 1000
) returns setof text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.name
  from skipmq.queue q
  where q.account = p_account and q.region = p_region
    and q.name > p_after collate "C"
    and q.name >= p_prefix collate "C"
    and starts_with(q.name, p_prefix)
  order by q.name
  limit p_limit
$$;
