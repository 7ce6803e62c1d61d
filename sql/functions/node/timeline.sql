-- Does: returns the timeline of this server, which changes with each failover: on a primary the one that it writes, on a
--   standby the one that it receives; null on a standby that is not connected, where it is unknown.
-- Called by: the view skipmq_views.server; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: not: each server has its own.
--
-- Where the schema's owner is not in pg_monitor a standby returns the timeline of its control file, up to a checkpoint
-- behind. Source: PostgreSQL manual, 28.2.6 pg_stat_wal_receiver; 9.27.11 pg_control_recovery.
create function skipmq.timeline() returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not pg_is_in_recovery() then
    return ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
  end if;
  if pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
    return (select r.received_tli from pg_stat_wal_receiver r);
  end if;
  return (select r.min_recovery_end_timeline from pg_control_recovery() r);
end $$;
