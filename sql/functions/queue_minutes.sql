-- Does: returns the changes to the messages of generations in each of the last p_minutes minutes, including the current
--   one, oldest first; a minute without changes has no row. Six hours are kept.
-- Called by: the console, `skipmq queue stats`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_minute_pkey.
-- Routed: to the partition of each of p_queue_ids.
create function skipmq.queue_minutes(p_queue_ids integer[], p_minutes integer default 60)
returns table (
  queue_id integer, minute timestamptz, sent bigint, received bigint, deleted bigint, dead_lettered bigint,
  messages bigint
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select m.queue_id, m.minute, m.sent, m.received, m.deleted, m.dead_lettered, m.messages
  from skipmq.queue_minute m
  where m.queue_id = any (p_queue_ids)
    and m.minute > date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes)
  order by m.queue_id, m.minute;
$$;
