-- Does: returns statistics of the database as names with a label and a value: the lag of each standby (in bytes, and in
--   seconds where it is reported), the WAL written so far, sizes in bytes, live and dead rows of the tables that change
--   with every message, the age in transactions of the oldest snapshot and of the oldest frozen transaction id, the
--   number of sessions and its maximum for roles without privileges, the seconds since fold_counts last folded all
--   counts, the number of damaged pages of each relation that has some, the tasks of queues that run, or failed within a day,
--   the messages by queue that were staged more than an hour ago and are not sent.
-- Called by: the janitor, for /metrics.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: staged_message_staged.
-- Routed: by sql/router/, in all partitions.
--
-- Standbys and the snapshots of other roles are omitted where the schema's owner is not in pg_monitor.
-- Source: PostgreSQL manual, 27.2.4 pg_stat_replication; 24.1.5 Preventing Transaction ID Wraparound Failures.
create function skipmq.database_statistics()
returns table (name text, label text, value float8)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
    return query
    select s.name, r.application_name, s.value
    from pg_stat_replication r
    cross join lateral (values
      ('standby lag bytes', pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn)::float8),
      ('standby lag', coalesce(extract(epoch from r.replay_lag), 0)::float8)) s (name, value)
    where r.state = 'streaming';

    return query
    select 'oldest xmin', '', coalesce(max(greatest(age(a.backend_xmin), age(a.backend_xid))), 0)::float8
    from pg_stat_activity a
    where a.pid <> pg_backend_pid();
  end if;

  return query
  select s.name, s.label, s.value
  from (values
    ('wal bytes', '', pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8),
    ('database bytes', '', pg_database_size(current_database())::float8),
    ('table bytes', 'message', pg_total_relation_size('skipmq.message')::float8),
    ('table bytes', 'history', (
      select sum(pg_total_relation_size(p.relid))::float8 from pg_partition_tree('skipmq.history') p)),
    ('frozen age', '', (
      select age(d.datfrozenxid)::float8 from pg_database d where d.datname = current_database())),
    ('sessions', '', (select sum(d.numbackends)::float8 from pg_stat_database d)),
    -- Nodes may not use the connections that are reserved for privileged roles.
    ('most sessions', '', current_setting('max_connections')::float8
      - current_setting('superuser_reserved_connections')::float8
      - coalesce(current_setting('reserved_connections', true), '0')::float8),
    -- By the real time, also where tests move the clock.
    ('counted age', '', (
      select extract(epoch from greatest(clock_timestamp() - c.counted_to, '0'))::float8
      from skipmq.cluster c where c.counted_to > '-infinity'))) s (name, label, value);

  return query
  select 'tasks', s.label, count(t.status)::float8
  from (values ('running', 'RUNNING'), ('failed', 'FAILED')) s (label, status)
  left join (
    -- As queue_troubles: a task that was started again did not fail.
    select distinct on (t.source_arn) t.status, t.started_at
    from skipmq.move_task t
    order by t.source_arn, t.started_at desc
  ) t on t.status = s.status
    and (t.status = 'RUNNING' or t.started_at > skipmq.clock() - interval '1 day')
  group by s.label;

  return query
  select 'staged messages', m.target, count(*)::float8
  from skipmq.staged_message m
  where m.staged_at <= skipmq.clock() - interval '1 hour'
  group by m.target;

  return query
  select 'damaged pages', p.relation, count(*)::float8 from skipmq.damaged_pages() p group by p.relation;

  return query
  select s.name, t.relname::text, s.value
  from pg_stat_user_tables t
  cross join lateral (values
    ('live rows', t.n_live_tup::float8), ('dead rows', t.n_dead_tup::float8)) s (name, value)
  where t.schemaname = 'skipmq' and t.relname in ('message', 'message_group', 'deduplication', 'queue_delta');
end $$;
