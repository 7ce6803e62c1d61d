-- Does: gives the one clock of the broker, the database's. Tests may move it by the session setting
--   skipmq.clock_offset (an interval).
-- Called by: every function that compares times, once each; write_time.
-- Locks, in order: none.
-- Raises: what moved_clock raises.
-- Relies on index: none.
--
-- Without SET and SECURITY DEFINER, so that the planner puts the expression in the place of the call.
create function skipmq.clock() returns timestamptz
language sql volatile
as $$
  select case
    when coalesce(current_setting('skipmq.clock_offset', true), '') = '' then clock_timestamp()
    else skipmq.moved_clock()
  end
$$;
