-- Does: returns an upper bound of the messages in flight: the number of all messages of the queue where it is less than
--   half of p_most; otherwise the messages in flight, counted up to p_most.
-- Called by: the ReceiveMessage action for its limit.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: those of count_all and count_in_flight.
-- Routed: to the partition of p_queue_id.
--
-- While an old snapshot is held, a count reads every message received and deleted within its visibility timeout.
create function skipmq.bound_in_flight(p_queue_id bigint, p_most integer default 120000) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_all bigint := skipmq.count_all(p_queue_id);
begin
  if v_all < p_most / 2 then
    return greatest(v_all, 0);
  end if;
  return skipmq.count_in_flight(p_queue_id, p_most);
end $$;
