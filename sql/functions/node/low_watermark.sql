-- Does: reads what a node needs to raise the low watermark of a standard queue, the time before which no message is
--   visible: the time, the running transactions that have an id, this transaction's own id (xid), and the visible_at of
--   the first message at or after p_from (null: of all) that was never received, and of the first at or after
--   p_received_from that was. Once a later call returns no transaction with a lower id than this call's xid, each
--   message that is or will be visible either has a visible_at of at least this call's read_at or is seen by that later
--   call: writers take their time after their id, and never write an earlier one. The transactions in p_held are exempt:
--   when one of them has ended, the scan starts at its element of p_held_low (scan_from).
-- Called by: the ReceiveMessage action, at intervals.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
-- Routed: to the partition of p_queue_id.
--
-- Transaction ids are in the order of time, and snapshots show which of them have ended (PostgreSQL manual, 9.27.8).
-- Read-only transactions have no id, so that a long snapshot does not hold the watermark back.
create function skipmq.low_watermark(
  p_queue_id bigint, p_from timestamptz default null, p_held bigint[] default null, p_held_low bigint[] default null,
  p_received_from timestamptz default null
) returns table (
  read_at timestamptz, running bigint[], xid bigint, first_visible_at timestamptz, first_received_at timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  read_at := skipmq.clock();
  xid := pg_current_xact_id()::text::bigint;
  running := array(select x::text::bigint from pg_snapshot_xip(pg_current_snapshot()) x);
  if p_held is not null then
    p_from := skipmq.scan_from(p_from, p_held, p_held_low);
    p_received_from := skipmq.scan_from(p_received_from, p_held, p_held_low);
  end if;
  -- A separate statement: it sees the writes of the transactions that have ended.
  -- A manual update may have set an infinite time, which clients cannot read.
  first_visible_at := (
    select nullif(greatest(m.visible_at, timestamptz '0001-01-02 00:00+00'), 'infinity')
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at >= coalesce(p_from, '-infinity')
    order by m.visible_at
    limit 1);
  first_received_at := (
    select nullif(greatest(m.visible_at, timestamptz '0001-01-02 00:00+00'), 'infinity')
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 2 and m.group_no is null
      and m.visible_at >= coalesce(p_received_from, '-infinity')
    order by m.visible_at
    limit 1);
  return next;
end $$;
