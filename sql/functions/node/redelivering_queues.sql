-- Does: returns queues without a dead-letter queue that redeliver the same messages: in the last p_minutes minutes more of
--   their deliveries ended without a delete than with one, and at least p_least did. The worst come first, up to
--   p_limit.
-- Called by: the ListDeadLetterQueues action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_count_pkey, queue_minute_pkey, and those of count_in_flight.
-- Routed: to all partitions; the rows are merged, order by received - deleted desc, name limit p_limit.
--
-- Deliveries that are in flight have not ended. They are counted only for the worst of the queues that received at least
-- p_least messages more than they deleted, so that the cost does not grow with the waiting messages. Dead-letter queues
-- are omitted: consumers often read them without deleting.
create function skipmq.redelivering_queues(
  p_account text, p_region text, p_search text default '', p_limit integer default 20, p_minutes integer default 360,
  p_least integer default 10
) returns table (name text, queue_id bigint, policy text, received bigint, deleted bigint, messages bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_from timestamptz := date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes);
begin
  return query
  with candidate as materialized (
    select q.name, q.queue_id, q.policy, c.messages, m.received, m.deleted
    from skipmq.queue q
    join skipmq.queue_count c on c.queue_id = q.queue_id
    cross join lateral (
      select sum(m.received)::bigint as received, sum(m.deleted)::bigint as deleted
      from skipmq.queue_minute m
      where m.queue_id = q.queue_id and m.minute > v_from
    ) m
    where q.account = p_account and q.region = p_region and q.dead_letter_name is null
      and (p_search = '' or strpos(lower(q.name), lower(p_search)) > 0)
      and c.received - c.deleted >= p_least
      and m.received - m.deleted >= greatest(p_least, m.deleted + 1)
      and not exists (
        select from skipmq.queue s
        where s.dead_letter_account = p_account and s.region = p_region and s.dead_letter_name = q.name)
    order by m.received - m.deleted desc, q.name
    limit p_limit
  )
  select c.name, c.queue_id, c.policy, c.received, c.deleted, greatest(c.messages, 0)
  from candidate c
  where c.received - c.deleted - skipmq.count_in_flight(c.queue_id, 10000) >= greatest(p_least, c.deleted + 1)
  order by c.received - c.deleted desc, c.name;
end $$;
