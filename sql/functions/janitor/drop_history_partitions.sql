-- Does: drops the history's partitions of days that ended more than p_keep ago, and deletes the rows of such days from the
--   default partition, and what is known of messages erased before; returns the number of partitions dropped. With p_archived only days whose rows an export has
--   compared within the last day, and only if no message was settled in them since.
-- Called by: the janitor.
-- Locks, in order: row of the job (does nothing when it is locked), the partition and the history table, briefly.
-- Raises: 22023 when p_keep is less than a day; 55P03 when a reader holds a partition for longer than lock_timeout: retry
--   later.
-- Relies on index: history_xid, archived_day_pkey.
-- Routed: to each partition; the results are added.
create function skipmq.drop_history_partitions(p_keep interval, p_archived boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  v_oldest date := ((skipmq.clock() - p_keep) at time zone 'UTC')::date;
  v_verified timestamptz := skipmq.clock() - interval '1 day';
  v_day date;
  v_name text;
  v_to bigint;
  v_late boolean;
  v_names text[] := '{}';
begin
  if p_keep < interval '1 day' then
    raise exception 'the history must be kept for at least one day' using errcode = '22023';
  end if;
  if not skipmq.hold_job('drop_history_partitions') then
    return 0;
  end if;
  for v_day, v_name, v_to in
    select d.day, c.relname, a.to_xid
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
    left join skipmq.archived_day a on a.day = d.day
    where i.inhparent = 'skipmq.history'::regclass
      and c.relname ~ '^history_[0-9]{8}$'
      and d.day < v_oldest
      and (not p_archived or a.archived_at > v_verified)
    order by 1
  loop
    if p_archived then
      -- Waits for transactions that wrote to it; later ones cannot write to it until this one ends.
      execute format('lock table skipmq.%I in access exclusive mode', v_name);
      execute format('select exists (select from skipmq.%I h where h.xid >= $1)', v_name)
      into v_late using v_to;
      if v_late then
        delete from skipmq.archived_day a where a.day = v_day;
        continue;
      end if;
    end if;
    v_names := v_names || v_name;
  end loop;
  delete from skipmq.history_default h
  where h.settled_at < v_oldest::timestamp at time zone 'UTC'
    and (not p_archived or exists (
      select from skipmq.archived_day a
      where a.day = (h.settled_at at time zone 'UTC')::date and h.xid < a.to_xid and a.archived_at > v_verified));
  -- Last, since these locks block every transaction that settles messages until this one ends.
  foreach v_name in array v_names loop
    execute format('drop table skipmq.%I', v_name);
  end loop;
  update skipmq.archived_day a set dropped = true
  where not a.dropped and a.day < v_oldest
    and to_regclass('skipmq.history_' || to_char(a.day, 'YYYYMMDD')) is null
    and not exists (
      select from skipmq.history_default h
      where h.settled_at >= a.day::timestamp at time zone 'UTC'
        and h.settled_at < (a.day + 1)::timestamp at time zone 'UTC');
  delete from skipmq.erased_message e
  where e.erased_at < (
    select min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp at time zone 'UTC'
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'skipmq.history'::regclass and c.relname ~ '^history_[0-9]{8}$');
  return cardinality(v_names);
end $$;
