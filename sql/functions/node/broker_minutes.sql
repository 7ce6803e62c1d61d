-- Does: returns what happened in the last p_minutes minutes, including the current one, by steps of p_step minutes: the
--   numbers by kind and label of the accounts p_accounts (`*` is all queues, and the empty one what nodes have measured).
--   Conditions and starts of nodes have their own minute. Six hours are kept.
-- Called by: the GetOverview action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: broker_minute_pkey.
-- Routed: to all partitions; the rows are merged, order by minute, kind, label.
create function skipmq.broker_minutes(p_accounts text[], p_minutes integer default 60, p_step integer default 1)
returns table (minute timestamptz, kind text, label text, number bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    s.start, m.kind, m.label,
    case when m.kind = 'messages' then (array_agg(m.number order by m.minute desc))[1] else sum(m.number)::bigint end
  from (select date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes) as since) t
  cross join unnest(p_accounts) u (account)
  join skipmq.broker_minute m on m.account = u.account and m.minute > t.since
  cross join lateral (
    select case
      when m.kind in ('condition', 'node') then m.minute
      else date_bin(make_interval(mins => p_step), m.minute, 'epoch') end as start
  ) s
  group by s.start, m.kind, m.label
  order by s.start, m.kind, m.label;
$$;
