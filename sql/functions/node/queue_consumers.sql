-- Does: returns the consumers of a queue that received, deleted or waited in the last ten minutes, the most recent first,
--   also before a purge, each caller and address once, with the last of its user agents, the processes that
--   served it and the seconds since its first and last receive.
-- Called by: the ListConsumers action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: consumer_pkey, and those of generations.
-- Routed: to the partition of p_queue_id.
create function skipmq.queue_consumers(p_queue_id bigint, p_limit integer default 200)
returns table (
  caller text, address text, application text, processes text[], since float8, last_receive float8,
  receives bigint, received bigint, deleted bigint, waiting integer, user_agent text
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  -- As a subquery of the join it could be evaluated again for each row, and its times be groups.
  with n as materialized (select skipmq.clock() as at)
  select
    c.caller, c.address, c.application, array_agg(c.process order by c.process)::text[],
    extract(epoch from n.at - min(c.since))::float8, extract(epoch from n.at - max(c.last_receive_at))::float8,
    sum(c.receives)::bigint, sum(c.received)::bigint, sum(c.deleted)::bigint,
    -- A process that was killed has no receivers any more.
    coalesce(sum(c.waiting) filter (where c.seen_at > n.at - interval '20 seconds'), 0)::integer,
    (array_agg(c.user_agent order by c.seen_at desc))[1]
  from skipmq.consumer c
  cross join n
  where c.queue_id in (select g.queue_id from skipmq.generations(p_queue_id) g) and c.seen_at > n.at - interval '10 minutes'
  group by n.at, c.caller, c.address, c.application
  order by max(c.last_receive_at) desc nulls last, c.caller, c.address
  limit p_limit;
$$;
