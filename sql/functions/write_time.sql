-- Does: gives the clock's time to a transaction that is about to write it, once it has a number. So that
--   whoever sees that all numbers up to his own are done knows that no time before his is still to come:
--   receive_floor stands on it.
-- Called by: every function that makes a message visible, now or soon.
-- Locks, in order: none.
-- Raises: as clock.
-- Relies on index: none.
create function skipmq.write_time() returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_current_xact_id();
  return skipmq.clock();
end $$;
