-- Does: makes the history's partitions of today and the p_days after it (UTC); gives the number made.
-- Called by: the installation, the janitor.
-- Locks, in order: advisory lock of the job, history table (briefly, for each new partition).
-- Raises: 55P03 when a reader holds the table for longer than the lock_timeout; try again later.
-- Relies on index: none.
create function skipmq.create_history_partitions(p_days integer default 7) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
  v_today date := (skipmq.clock() at time zone 'UTC')::date;
  v_day date;
  v_count integer := 0;
begin
  perform pg_advisory_xact_lock(hashtext('skipmq'), hashtext('create_history_partitions'));
  for v_day in select v_today + n from generate_series(0, p_days) n loop
    continue when to_regclass('skipmq.history_' || to_char(v_day, 'YYYYMMDD')) is not null;
    execute format(
      'create table skipmq.history_%s partition of skipmq.history for values from (%L) to (%L)',
      to_char(v_day, 'YYYYMMDD'),
      v_day::timestamp at time zone 'UTC',
      (v_day + 1)::timestamp at time zone 'UTC');
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;
