-- Does: lists the schedules of an account in a region by name, after p_after; with p_name that one alone.
-- Called by: the ListSchedules and DescribeSchedule actions; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: schedule_pkey.
-- Routed: to all partitions; the rows are merged, order by name limit p_limit.
create function skipmq.list_schedules(
  p_account text, p_region text, p_after text default '', p_limit integer default 100, p_name text default null
) returns table (
  name text, queue text, expression text, zone text, body text, attributes text, group_id text, jitter integer, catch_up text,
  ends_at timestamptz, max_failures integer, paused boolean, failures integer, failure text, planned boolean, next_at timestamptz,
  read_at timestamptz
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.name, s.queue, s.expression, s.zone, s.body, s.attributes::text, s.group_id, s.jitter, s.catch_up, s.ends_at,
    s.max_failures, s.paused, s.failures, s.failure, s.planned, s.next_at, skipmq.clock()
  from skipmq.schedule s
  where s.account = p_account and s.region = p_region and s.name > p_after and (p_name is null or s.name = p_name)
  order by s.name
  limit p_limit;
$$;
