-- Does: creates the history's partitions of today and of the next p_days days (UTC), and moves the rows of each such day
--   from the default partition into them; returns the number created.
-- Called by: the installation, the janitor.
-- Locks, in order: row of the job, history and its default partition (briefly, for each day).
-- Raises: 55P03 when a reader holds the table for longer than lock_timeout; retry later.
-- Relies on index: none.
-- Routed: to each partition; the results are added.
create function skipmq.create_history_partitions(p_days integer default 7) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
  v_today date := (skipmq.clock() at time zone 'UTC')::date;
  v_day date;
  v_name text;
  v_from timestamptz;
  v_to timestamptz;
  v_count integer := 0;
  v_role text;
begin
  perform skipmq.hold_job('create_history_partitions', true);
  for v_day in select v_today + n from generate_series(0, p_days) n loop
    v_name := 'history_' || to_char(v_day, 'YYYYMMDD');
    continue when to_regclass('skipmq.' || v_name) is not null;
    v_from := v_day::timestamp at time zone 'UTC';
    v_to := (v_day + 1)::timestamp at time zone 'UTC';
    execute format('create table skipmq.%I (like skipmq.history including all)', v_name);
    execute format('alter table skipmq.%I replica identity full', v_name);
    -- Default privileges of the owner are for its other tables.
    for v_role in
      select distinct case when a.grantee = 0 then 'public' else a.grantee::regrole::text end
      from pg_class c cross join lateral aclexplode(c.relacl) a
      where c.oid = to_regclass('skipmq.' || v_name) and a.grantee <> c.relowner
    loop
      execute format('revoke all on skipmq.%I from %s cascade', v_name, v_role);
    end loop;
    lock table skipmq.history_default in access exclusive mode;
    execute format(
      'with caught as (
         delete from skipmq.history_default h where h.settled_at >= $1 and h.settled_at < $2 returning h.*)
       insert into skipmq.%I select c.* from caught c', v_name) using v_from, v_to;
    execute format(
      'alter table skipmq.history attach partition skipmq.%I for values from (%L) to (%L)',
      v_name, v_from, v_to);
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;
