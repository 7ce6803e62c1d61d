-- Does: assigns the transaction an id, if it has none, and then returns the clock's time. A transaction with a higher id
--   than a call of low_watermark therefore writes a later time than that call's read_at.
-- Called by: every function that makes a message visible, now or later.
-- Locks, in order: none.
-- Raises: what clock raises.
-- Relies on index: none.
--
-- CASE evaluates its condition first. Without SET and SECURITY DEFINER, as clock.
create function skipmq.write_time() returns timestamptz
language sql volatile
as $$
  select case when pg_current_xact_id() is not null then skipmq.clock() end
$$;
