-- Does: gives since when the oldest transaction has been open that keeps this database from clearing up: one here
--   that has a snapshot or wrote, one of another database that wrote (every snapshot here keeps what it might see),
--   one that is prepared, since then. Null when there is none.
-- Called by: the janitor, for skipmq_oldest_snapshot_seconds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Where the owner of the schema is not in pg_monitor it sees only sessions of roles that it has. Nobody notes since
-- when a replication slot or a standby with hot_standby_feedback holds something, so that they are not in it.
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
      -- A vacuum shows a snapshot, but nothing is kept for it.
      and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
    union all
    select p.prepared, format('prepared transaction %s, user %s, database %s', p.gid, p.owner, p.database)
    from pg_prepared_xacts p
  ) t (began, session)
  where t.began is not null
  order by t.began
  limit 1
$$;
