-- Does: counts the days of the history that ended more than p_keep ago and are kept only because no export of the last
--   day is recorded that has all their rows.
-- Called by: the janitor, for the metric skipmq_history_days_unarchived.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: archived_day_pkey.
-- Routed: to each partition; the greatest result is returned.
create function skipmq.count_unarchived_days(p_keep interval) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(*)::integer
  from (
    select to_date(right(c.relname, 8), 'YYYYMMDD'), -1
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'skipmq.history'::regclass and c.relname ~ '^history_[0-9]{8}$'
    union all
    select (h.settled_at at time zone 'UTC')::date, max(h.xid)
    from skipmq.history_default h
    group by 1
  ) d (day, xid)
  where d.day < ((skipmq.clock() - p_keep) at time zone 'UTC')::date
    and not exists (
      select from skipmq.archived_day a
      where a.day = d.day and a.to_xid > d.xid and a.archived_at > skipmq.clock() - interval '1 day')
$$;
