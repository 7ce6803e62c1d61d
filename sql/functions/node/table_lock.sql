-- Does: returns the oldest transaction that has locked a table of messages against writes, or waits for such a lock and so
--   blocks later transactions: its session, and its start where the schema's owner can see it. Tables that only
--   background jobs or operators write to do not count. Null when there is none.
-- Called by: nodes, when a statement timed out waiting for a lock.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: pg_class_oid_index.
-- Routed: to all partitions; the rows are merged, order by began limit 1.
create function skipmq.table_lock(out began timestamptz, out session text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.xact_start, format('%s %s %s on %s.%s',
    case
      when a.pid is null then 'a prepared transaction'
      else format('%s, process %s, user %s', coalesce(nullif(a.application_name, ''), 'a session'), a.pid, a.usename)
    end,
    case when l.granted then 'holds' else 'waits for' end, l.mode, c.relnamespace::regnamespace, c.relname)
  from pg_locks l
  join pg_class c on c.oid = l.relation
  left join pg_stat_activity a on a.pid = l.pid
  where l.locktype = 'relation'
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    and c.relnamespace = 'skipmq'::regnamespace
    and c.relname in (
      'message', 'message_group', 'deduplication', 'receive_attempt', 'queue', 'queue_delta', 'history', 'history_default',
      'history_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD'))
  order by a.xact_start
  limit 1
$$;
