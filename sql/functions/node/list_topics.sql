-- Does: lists the names of at most p_limit topics after p_after, in order.
-- Called by: the ListTopics action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: topic_account_region_name_key.
-- Routed: to all partitions; the rows are merged, order by 1 limit p_limit.
create function skipmq.list_topics(p_account text, p_region text, p_after text, p_limit integer) returns setof text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.name from skipmq.topic t
  where t.account = p_account and t.region = p_region and t.name > p_after collate "C"
  order by t.name
  limit p_limit
$$;
