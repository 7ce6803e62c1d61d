-- Does: lets all nodes know, for as long as the caller's session lasts, that the disk was found full, and tries
--   whether it still is.
-- Called by: the node that met the error, once a second, until it gets through.
-- Locks, in order: the advisory lock that database_state looks for, shared, kept until the session ends.
-- Raises: 53100 while the disk is full.
-- Relies on index: none.
--
-- It adds 256 kB to a table, and goes back: the pages stay until vacuum cuts them off, so that no try finds room that
-- an earlier one has left.
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
