-- Does: returns the state of the server in one row: its address (null: a Unix socket), its version and the revision of the
--   schema, its start time, its timeline and the age of the oldest snapshot in seconds; the connected standbys with their
--   lag in bytes and seconds; who holds the oldest snapshot; the programs that have sessions on this server, with their role,
--   database and number of sessions; the connections that are reserved for privileged roles; the damaged pages.
-- Called by: the DescribeDatabase action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: not: nodes run it on each partition itself.
--
-- may_see is false where the schema's owner is not in pg_monitor: it then sees only the number of standbys, and no
-- addresses or times of sessions. Source: PostgreSQL manual, 27.2.3 pg_stat_activity; 27.2.4 pg_stat_replication.
create function skipmq.database_overview(
  out host text, out port integer, out version text, out revision text, out started_at timestamptz,
  out now_at timestamptz, out timeline bigint, out oldest_snapshot float8, out oldest_session text, out reserved integer,
  out data_directory text, out owner text, out may_see boolean,
  out standby_count integer, out standbys jsonb, out sessions jsonb, out damage jsonb
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  host := host(inet_server_addr());
  port := coalesce(inet_server_port(), current_setting('port')::integer);
  version := split_part(current_setting('server_version'), ' ', 1);
  -- A schema installed from sql/ has no revision.
  if has_table_privilege(to_regclass('skipmq.alembic_version'), 'select') then
    revision := (select v.version_num from skipmq.alembic_version v);
  end if;
  started_at := pg_postmaster_start_time();
  now_at := clock_timestamp();
  timeline := skipmq.timeline();
  select extract(epoch from now_at - s.began), s.session into oldest_snapshot, oldest_session from skipmq.oldest_snapshot() s;
  reserved := current_setting('superuser_reserved_connections')::integer
    + coalesce(current_setting('reserved_connections', true), '0')::integer;
  -- A client on this machine may measure its disk.
  if host is null and pg_has_role(current_user, 'pg_read_all_settings', 'usage') then
    data_directory := current_setting('data_directory');
  end if;
  owner := current_user;
  may_see := pg_has_role(current_user, 'pg_read_all_stats', 'usage');
  select
    count(*),
    coalesce(jsonb_agg(jsonb_build_object(
      'name', r.application_name, 'address', host(r.client_addr), 'state', r.state, 'sync', r.sync_state,
      'bytes', greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn), 0),
      'seconds', coalesce(extract(epoch from r.replay_lag), 0))
      order by r.sync_state = 'async', r.application_name, r.pid) filter (where may_see), '[]')
  into standby_count, standbys
  from pg_stat_replication r;
  -- application_name is visible to every role, addresses and times only to privileged ones.
  select coalesce(jsonb_agg(to_jsonb(s) order by s.program, s.address), '[]')
  into sessions
  from (
    select
      a.application_name as program, a.usename as role, a.datname as database, a.datname = current_database() as here, host(a.client_addr) as address,
      count(*) as number, extract(epoch from now_at - min(a.backend_start)) as seconds
    from pg_stat_activity a
    where a.datname is not null
    group by a.application_name, a.usename, a.datname, a.client_addr
    order by a.datname <> current_database(), a.application_name, a.client_addr
    limit 300
  ) s;
  damage := coalesce((select jsonb_agg(to_jsonb(p)) from skipmq.damaged_pages() p), '[]');
end $$;
