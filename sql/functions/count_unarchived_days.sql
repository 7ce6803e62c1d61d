-- Does: gives how many days of the history ended more than p_keep ago and are there only because no export is
--   recorded that has all of them.
-- Called by: the janitor, for skipmq_history_days_unarchived.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: archived_day_pkey.
create function skipmq.count_unarchived_days(p_keep interval) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(*)::integer
  from (
    select d.day
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
    where i.inhparent = 'skipmq.history'::regclass
      and c.relname ~ '^history_[0-9]{8}$'
      and not exists (select from skipmq.archived_day a where a.day = d.day)
    union
    select d.day
    from skipmq.history_default h
    cross join lateral (select (h.settled_at at time zone 'UTC')::date as day) d
    where not exists (select from skipmq.archived_day a where a.day = d.day and h.xid < a.to_xid)
  ) left_over
  where left_over.day < ((skipmq.clock() - p_keep) at time zone 'UTC')::date
$$;
