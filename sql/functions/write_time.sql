-- Does: gives the clock's time to a transaction that is about to write it, once it has a number. So whoever
--   sees that all transactions with lower numbers than his own are over knows that none of them will write an
--   earlier time than his: low_watermark depends on it.
-- Called by: every function that makes a message visible, now or later.
-- Locks, in order: none.
-- Raises: as clock.
-- Relies on index: none.
--
-- CASE evaluates its condition first. Without SET and SECURITY DEFINER, as clock.
create function skipmq.write_time() returns timestamptz
language sql volatile
as $$
  select case when pg_current_xact_id() is not null then skipmq.clock() end
$$;
