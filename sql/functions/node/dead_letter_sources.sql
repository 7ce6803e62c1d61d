-- Does: lists the names of the queues whose redrive policy names a queue, after p_after in order.
-- Called by: the ListDeadLetterSourceQueues action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_dead_letter.
-- Routed: to the partition of p_name.
create function skipmq.dead_letter_sources(
  p_account text,
  p_region text,
  p_name text,
  p_after text default '',
  p_limit integer default 1000
) returns setof text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.name
  from skipmq.queue q
  where q.dead_letter_account = p_account and q.region = p_region and q.dead_letter_name = p_name
    and q.name > p_after collate "C"
  order by q.name
  limit p_limit
$$;
