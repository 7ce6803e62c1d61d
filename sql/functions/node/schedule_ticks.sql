-- Does: returns the last ticks of a schedule, the newest first: when each was due and was sent, its message or why there is none.
-- Called by: the DescribeSchedule action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: schedule_tick_pkey.
-- Routed: to all partitions; the rows are merged, order by due_at desc limit p_limit.
create function skipmq.schedule_ticks(p_account text, p_region text, p_name text, p_limit integer default 20)
returns table (due_at timestamptz, ran_at timestamptz, message_id uuid, failure text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.due_at, t.ran_at, t.message_id, t.failure
  from skipmq.schedule_tick t
  where t.account = p_account and t.region = p_region and t.name = p_name
  order by t.due_at desc
  limit p_limit;
$$;
