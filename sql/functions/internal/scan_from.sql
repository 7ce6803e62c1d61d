-- Does: returns the time from which a standard queue must be scanned: p_low, or an earlier one when a transaction in
--   p_held has ended. Its messages are at or after its element of p_held_low (microseconds since 1970; null: no bound).
-- Called by: receive_messages, low_watermark, where long transactions are exempt from the watermark.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Volatile, so that it takes a snapshot: the scan that follows sees what transactions that ended before the call wrote.
create function skipmq.scan_from(p_low timestamptz, p_held bigint[], p_held_low bigint[]) returns timestamptz
language plpgsql volatile
as $$
begin
  return least(p_low, (
    select min(coalesce('epoch'::timestamptz + h.low * interval '1 microsecond', '-infinity'))
    from unnest(p_held, p_held_low) h (xid, low)
    where pg_visible_in_snapshot(h.xid::text::xid8, pg_current_snapshot())));
end $$;
