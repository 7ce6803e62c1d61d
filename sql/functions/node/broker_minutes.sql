-- Does: returns what happened in the last p_minutes minutes, including the current one, by whole steps of p_step minutes: the
--   numbers by kind and label of the accounts p_accounts (`*` is all queues, and the empty one what nodes have measured).
--   The number of messages before the first step holds in it. Conditions and starts of nodes have their own minute. Six
--   hours are kept.
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
    -- The last one, without a sort.
    case when m.kind = 'messages'
      then (max(array[extract(epoch from m.minute)::bigint, m.number]) filter (where m.kind = 'messages'))[2]
      else sum(m.number)::bigint end
  from (
    select date_bin(i.step, skipmq.clock(), 'epoch') + i.step - make_interval(mins => p_minutes) as since, i.step
    from (select make_interval(mins => p_step) as step) i
  ) t
  cross join unnest(p_accounts) u (account)
  cross join lateral (
    select m.minute, m.kind, m.label, m.number
    from skipmq.broker_minute m
    where m.account = u.account and m.minute >= t.since
    union all
    (select m.minute, m.kind, m.label, m.number
    from skipmq.broker_minute m
    where m.account = u.account and m.minute < t.since and m.kind = 'messages'
    order by m.minute desc
    limit 1)
  ) m
  cross join lateral (
    select case
      when m.kind in ('condition', 'node') then m.minute
      else greatest(date_bin(t.step, m.minute, 'epoch'), t.since) end as start
  ) s
  group by s.start, m.kind, m.label
  order by s.start, m.kind, m.label;
$$;
