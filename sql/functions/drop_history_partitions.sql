-- Does: drops the history's partitions whose last day ended more than p_keep ago, and deletes what the
--   default partition has of such days; gives the number of partitions.
-- Called by: the janitor.
-- Locks, in order: advisory lock of the job (when it is held elsewhere nothing is done), the partition
--   and the history table, briefly.
-- Raises: 22023 when p_keep is less than a day; 55P03 when a reader holds a partition for longer than the
--   lock_timeout: try again later.
-- Relies on index: none.
create function skipmq.drop_history_partitions(p_keep interval) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  v_oldest date := ((skipmq.clock() - p_keep) at time zone 'UTC')::date;
  v_name text;
  v_count integer := 0;
begin
  if p_keep < interval '1 day' then
    raise exception 'the history is kept for a day at least' using errcode = '22023';
  end if;
  if not pg_try_advisory_xact_lock(hashtext('skipmq'), hashtext('drop_history_partitions')) then
    return 0;
  end if;
  for v_name in
    select c.relname
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'skipmq.history'::regclass
      and c.relname ~ '^history_[0-9]{8}$'
      and to_date(right(c.relname, 8), 'YYYYMMDD') < v_oldest
  loop
    execute format('drop table skipmq.%I', v_name);
    v_count := v_count + 1;
  end loop;
  delete from skipmq.history_default h where h.settled_at < v_oldest::timestamp at time zone 'UTC';
  return v_count;
end $$;
