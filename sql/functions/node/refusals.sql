-- Does: returns the requests that were refused in the last p_minutes minutes in an account and region, where null is every
--   one, or on a queue: their number by place, queue, caller and error, the seconds since the first after an hour without, the
--   most first, up to p_limit. Those that ended four minutes ago or before are left out: the cause was removed.
-- Called by: the GetOverview and ListConsumers actions.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: refusal_pkey.
-- Routed: to all partitions; the rows are merged, order by number desc, account, region, queue, caller, error limit p_limit.
create function skipmq.refusals(
  p_account text, p_region text, p_queue text default null, p_minutes integer default 10, p_limit integer default 20
) returns table (account text, region text, queue text, caller text, error text, number bigint, seconds float8)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select f.account, f.region, f.queue, f.caller, f.error, f.number, s.seconds
  from (
    select r.account, r.region, r.queue, r.caller, r.error, sum(r.number)::bigint as number, n.at
    from (select skipmq.clock() as at) n
    join skipmq.refusal r on r.minute > n.at - make_interval(mins => p_minutes)
    -- Accounts and regions are of digits, letters and hyphens, so that the ranges have all.
    where r.account between coalesce(p_account, '') and coalesce(p_account, '~')
      and r.region between coalesce(p_region, '') and coalesce(p_region, '~')
      and (p_queue is null or r.queue = p_queue)
    group by r.account, r.region, r.queue, r.caller, r.error, n.at
    having max(r.minute) > n.at - interval '4 minutes'
  ) f
  cross join lateral (
    select extract(epoch from f.at - max(d.minute))::float8 as seconds
    from (
      select d.minute, lag(d.minute) over (order by d.minute) as before
      from skipmq.refusal d
      where d.account = f.account and d.region = f.region and d.queue = f.queue and d.caller = f.caller
        and d.error = f.error
    ) d
    where d.before is null or d.before < d.minute - interval '1 hour'
  ) s
  order by f.number desc, f.account, f.region, f.queue, f.caller, f.error
  limit p_limit;
$$;
