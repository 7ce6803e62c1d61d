-- Does: returns up to p_limit schedules whose tick is due or whose next one is to be determined, those first that have waited longest;
--   those last whose next tick was determined before the clock was set back by more than a minute; then, without a name, the seconds until the next one is due (null: there is none).
-- Called by: the janitor.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: schedule_next, schedule_planned.
-- Routed: not: nodes run it on each partition.
create function skipmq.due_schedules(p_limit integer default 100) returns table (
  account text, region text, name text, queue text, expression text, zone text, catch_up text, planned boolean,
  next_at timestamptz, ends_at timestamptz, read_at timestamptz, wait float8
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
begin
  return query
  select s.account, s.region, s.name, s.queue, s.expression, s.zone, s.catch_up, s.planned, s.next_at, s.ends_at, v_now, null::float8
  from skipmq.schedule s
  where s.next_at <= v_now and not s.paused
  order by s.next_at
  limit p_limit;
  return query
  select s.account, s.region, s.name, s.queue, s.expression, s.zone, s.catch_up, false, s.next_at, s.ends_at, v_now, null::float8
  from skipmq.schedule s
  where s.planned_at > v_now + interval '1 minute' and s.next_at > v_now and not s.paused
  limit p_limit;
  wait := extract(epoch from (
    select s.next_at from skipmq.schedule s where s.next_at > v_now and not s.paused order by s.next_at limit 1) - v_now);
  return next;
end $$;
