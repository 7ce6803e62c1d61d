-- Does: gives the time from which a standard queue has to be scanned: p_low, or an earlier one where a transaction of
--   p_held has ended. What that wrote may lie from its place in p_held_low on (microseconds since 1970; null: from the
--   beginning).
-- Called by: receive_messages, low_watermark, where transactions that stay open are left out of the proof.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Volatile, so that it has a snapshot of its own: what ended before the call is seen by the scan that follows.
create function skipmq.scan_from(p_low timestamptz, p_held bigint[], p_held_low bigint[]) returns timestamptz
language plpgsql volatile
as $$
begin
  return least(p_low, (
    select min(coalesce('epoch'::timestamptz + h.low * interval '1 microsecond', '-infinity'))
    from unnest(p_held, p_held_low) h (xid, low)
    where pg_visible_in_snapshot(h.xid::text::xid8, pg_current_snapshot())));
end $$;
