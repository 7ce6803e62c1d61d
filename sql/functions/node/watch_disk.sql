-- Does: marks the disk as full for all nodes while the caller's session lasts, and tests whether it still is.
-- Called by: the node that got the error, once a second, until the call succeeds.
-- Locks, in order: the advisory lock that database_state reads, shared, held until the session ends.
-- Raises: 53100 while the disk is full.
-- Relies on index: none.
-- Routed: to each partition.
--
-- It adds 256 kB to a table and rolls back. The pages stay until vacuum truncates them, so that no call reuses the space
-- of an earlier one.
create function skipmq.watch_disk() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_advisory_lock_shared(hashtext('skipmq'), hashtext('disk_full'));
  begin
    insert into skipmq.disk_probe (filler) select repeat('x', 6000) from generate_series(1, 32);
    raise exception using errcode = 'SQ099';
  exception
    when sqlstate 'SQ099' then
      null; -- There was room.
  end;
end $$;
