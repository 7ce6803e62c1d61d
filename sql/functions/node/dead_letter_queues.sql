-- Does: returns the dead-letter queues of an account and region, each with its number of messages, the age of the oldest
--   in seconds, the messages that arrived in the last p_minutes minutes (sent or moved there), and the first p_sources
--   source queues, with the messages that each moved to a dead-letter queue in that time; those that clients sent there
--   count for an only source. First those that do not exist
--   (queue_id is null), then those with the most messages, up to p_limit after p_offset. One further row, whose name is
--   null, has the sums of all other matches.
-- Called by: the ListDeadLetterQueues action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_dead_letter, queue_pkey, queue_count_pkey, queue_minute_pkey, and those of oldest_message.
-- Routed: to all partitions; paged by queue_id is not null, messages desc, name.
--
-- p_search is a part of the name of the queue or of a source. The cost does not depend on the number of messages.
create function skipmq.dead_letter_queues(
  p_account text, p_region text, p_search text default '', p_limit integer default 50, p_offset integer default 0,
  p_minutes integer default 360, p_sources integer default 20
) returns table (
  name text, queue_id bigint, queues bigint, fifo boolean, policy text, next_name text, messages bigint,
  oldest float8, arrived bigint, source_count bigint, sources jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_from timestamptz := date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes);
begin
  return query
  with named as materialized (
    select s.dead_letter_name as name, count(*) as sources
    from skipmq.queue s
    where s.dead_letter_account = p_account and s.region = p_region and s.dead_letter_name is not null
    group by s.dead_letter_name
    having p_search = '' or strpos(lower(s.dead_letter_name), lower(p_search)) > 0
      or bool_or(strpos(lower(s.name), lower(p_search)) > 0)
  ), matching as materialized (
    select
      n.name, q.queue_id, q.fifo, q.policy, q.dead_letter_name as next_name, n.sources,
      coalesce(greatest(c.messages, 0), 0) as messages
    from named n
    left join skipmq.queue q on q.account = p_account and q.region = p_region and q.name = n.name
    left join skipmq.queue_count c on c.queue_id = q.queue_id
  ), given as materialized (
    select m.*, row_number() over () as place
    from (
      select m.*
      from matching m
      order by m.queue_id is not null, m.messages desc, m.name
      limit p_limit offset p_offset
    ) m
  )
  (
    select
      g.name, g.queue_id, 1::bigint, g.fifo, g.policy, g.next_name, g.messages,
      case when g.messages > 0 then skipmq.try_oldest_message(g.queue_id, g.fifo) end,
      a.arrived, g.sources, s.sources
    from given g
    cross join lateral (
      select coalesce(sum(m.sent), 0)::bigint as arrived, coalesce(sum(m.sent - m.moved_in), 0) as sent
      from skipmq.queue_minute m
      where m.queue_id = g.queue_id and m.minute > v_from
    ) a
    cross join lateral (
      select
        jsonb_agg(jsonb_build_object(
          'name', s.name, 'most', s.max_receive_count, 'policy', s.policy, 'messages',
          (select coalesce(greatest(c.messages, 0), 0) from skipmq.queue_count c where c.queue_id = s.queue_id),
          'moved', (
            select coalesce(sum(m.dead_lettered), 0)
            from skipmq.queue_minute m
            where m.queue_id = s.queue_id and m.minute > v_from)
          + case when g.sources = 1 then a.sent else 0 end) order by s.name) as sources
      from (
        select s.name, s.max_receive_count, s.policy, s.queue_id
        from skipmq.queue s
        where s.dead_letter_account = p_account and s.region = p_region and s.dead_letter_name = g.name
        order by s.name
        limit p_sources
      ) s
    ) s
    order by g.place
  )
  union all
  select
    null, null, count(*), null, null, null, coalesce(sum(m.messages), 0)::bigint, null, null,
    coalesce(sum(m.sources), 0)::bigint, null
  from matching m
  where not exists (select from given g where g.name = m.name);
end $$;
