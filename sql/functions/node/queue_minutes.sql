-- Does: returns the changes to the messages of generations in the last p_minutes minutes, including the current one, by steps
--   of p_step minutes, oldest first; a step without changes has no row. Six hours are kept by the minute, and seven days by
--   ten minutes, which are read for more than six hours. Those of purged generations belong to the one that followed.
-- Called by: the console, `skipmq queue stats`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_minute_pkey, queue_period_pkey, and those of generations.
-- Routed: to the partition of each of p_queue_ids.
create function skipmq.queue_minutes(p_queue_ids bigint[], p_minutes integer default 60, p_step integer default 1)
returns table (
  queue_id bigint, minute timestamptz, sent bigint, received bigint, deleted bigint, dead_lettered bigint,
  expired bigint, messages bigint
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  with period as (
    select date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes) as since
  ), part as materialized (
    select u.id as queue_id, coalesce(g.queue_id, u.id) as part, coalesce(g.retired_at, 'infinity') as until
    from unnest(p_queue_ids) u (id)
    left join lateral skipmq.generations(u.id) g on true
  ), found as (
    select g.queue_id, g.until, m.minute, m.sent, m.received, m.deleted, m.dead_lettered, m.expired, m.messages
    from period t
    cross join part g
    join skipmq.queue_minute m on m.queue_id = g.part and m.minute > t.since
    union all
    select g.queue_id, g.until, p.start, p.sent, p.received, p.deleted, p.dead_lettered, p.expired, p.messages
    from period t
    cross join part g
    join skipmq.queue_period p on p.queue_id = g.part and p.start > t.since - interval '10 minutes'
    where p_minutes > 360
  )
  select
    f.queue_id, date_bin(make_interval(mins => p_step), f.minute, 'epoch') as minute, sum(f.sent)::bigint,
    sum(f.received)::bigint, sum(f.deleted)::bigint, sum(f.dead_lettered)::bigint, sum(f.expired)::bigint,
    -- A purge has left none.
    (array_agg(case when f.minute + interval '1 minute' > f.until then 0 else f.messages end
      order by f.minute desc, f.until desc))[1]
  from found f
  group by f.queue_id, date_bin(make_interval(mins => p_step), f.minute, 'epoch')
  order by f.queue_id, minute;
$$;
