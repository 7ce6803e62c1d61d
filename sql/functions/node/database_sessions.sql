-- Does: returns the sessions of clients of this server, of every database: those that others wait for first, then those that wait,
--   then those with the oldest transactions. A session is known by its process and its start. waits_for is the lock that it waits
--   for, and blocked_by the processes that hold or precede it (0: a prepared transaction). may_end: end_backend can end it, for
--   which its start must be known.
-- Called by: the ListSessions action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: not: nodes run it on each partition itself.
--
-- Where the schema's owner is not in pg_monitor, addresses, states and times of other roles' sessions are null. Queries are left
-- out, since they may have bodies in them. Source: PostgreSQL manual, 27.2.3 pg_stat_activity; 9.27.5 pg_blocking_pids.
create function skipmq.database_sessions(p_limit integer default 200)
returns table (
  pid integer, began timestamptz, program text, role text, database text, address text, state text, seconds float8,
  state_seconds float8, transaction_seconds float8, holds_snapshot boolean, waits_for text, blocked_by integer[], may_end boolean
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_signals boolean := pg_has_role('pg_signal_backend', 'usage');
  v_is_superuser boolean := (select r.rolsuper from pg_roles r where r.rolname = current_user);
begin
  return query
  with waiting as materialized (
    select l.pid, array(select distinct b from unnest(pg_blocking_pids(l.pid)) b order by b) as blockers,
      min(concat_ws(' ', l.mode, coalesce(
        (select format('%s.%s', c.relnamespace::regnamespace, c.relname) from pg_class c
         where c.oid = l.relation and l.database = (select d.oid from pg_database d where d.datname = current_database())),
        l.locktype))) as what
    from pg_locks l
    where not l.granted
    group by l.pid
  )
  select
    a.pid, a.backend_start, a.application_name, a.usename::text, a.datname::text, host(a.client_addr), a.state,
    extract(epoch from v_now - a.backend_start)::float8, extract(epoch from v_now - a.state_change)::float8,
    extract(epoch from v_now - a.xact_start)::float8,
    (a.backend_xmin is not null or a.backend_xid is not null) and a.pid <> pg_backend_pid(),
    w.what, coalesce(w.blockers, '{}'),
    a.pid <> pg_backend_pid() and a.backend_start is not null
      and (v_is_superuser or not r.rolsuper and (v_signals or pg_has_role(r.oid, 'usage')))
  from pg_stat_activity a
  left join pg_roles r on r.oid = a.usesysid
  left join waiting w on w.pid = a.pid
  where a.backend_type = 'client backend' or a.backend_type is null and a.datname is not null
  order by exists (select from waiting o where a.pid = any (o.blockers)) desc, w.pid is null, a.xact_start, a.backend_start, a.pid
  limit p_limit;
end $$;
