-- Does: returns the database's time, the only clock of the broker. Tests can shift it with the session setting
--   skipmq.clock_offset (an interval).
-- Called by: every function that compares times, once each; write_time.
-- Locks, in order: none.
-- Raises: what moved_clock raises.
-- Relies on index: none.
-- Routed: to the first partition that answers.
--
-- Without SET and SECURITY DEFINER, so that the planner inlines it.
create function skipmq.clock() returns timestamptz
language sql volatile
as $$
  select case
    when coalesce(current_setting('skipmq.clock_offset', true), '') = '' then clock_timestamp()
    else skipmq.moved_clock()
  end
$$;
