-- Does: counts the synchronous standbys that have flushed the WAL up to p_position; null stands for the position that
--   this server has flushed by now. Also returns the position, for the next call.
-- Called by: nodes, for queues whose ReplicationMode requires more standbys than the cluster's commits wait for.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: by sql/router/, in one partition.
create function skipmq.acknowledged(
  p_position text default null, out "position" text, out acknowledged integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_position pg_lsn := coalesce(p_position::pg_lsn, pg_current_wal_flush_lsn());
begin
  "position" := v_position::text;
  acknowledged := (
    select count(*) from pg_stat_replication r where r.sync_state <> 'async' and r.flush_lsn >= v_position);
end $$;
