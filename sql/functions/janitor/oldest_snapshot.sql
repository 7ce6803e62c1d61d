-- Does: returns the start of the oldest transaction that keeps vacuum from removing rows of this database: one here with a
--   snapshot or an id, one of another database with an id (snapshots here retain what it might see), or a prepared one,
--   from its preparation on. Null when there is none.
-- Called by: the janitor, for the metric skipmq_oldest_snapshot_seconds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to all partitions; the rows are merged, order by began limit 1.
--
-- Where the schema's owner is not in pg_monitor it sees only sessions of its own roles. Replication slots and standbys
-- with hot_standby_feedback are omitted, since PostgreSQL does not record since when they hold rows.
create function skipmq.oldest_snapshot(out began timestamptz, out session text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.began, t.session
  from (
    select a.xact_start, format(
      '%s, process %s, user %s, database %s',
      coalesce(nullif(a.application_name, ''), a.backend_type), a.pid, a.usename, a.datname)
    from pg_stat_activity a
    where (a.backend_xid is not null or (a.backend_xmin is not null and a.datname = current_database()))
      and a.pid <> pg_backend_pid()
      -- A vacuum has a snapshot, but retains no rows.
      and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
    union all
    select p.prepared, format('prepared transaction %s, user %s, database %s', p.gid, p.owner, p.database)
    from pg_prepared_xacts p
  ) t (began, session)
  where t.began is not null
  order by t.began
  limit 1
$$;
