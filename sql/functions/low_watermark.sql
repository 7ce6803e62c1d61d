-- Does: reads what a node needs to raise the low watermark of a standard queue, the time before which nothing is
--   visible: the time, the transactions that run and have a number, this transaction's own number, and when the first
--   message from p_from on (null: of all) became or becomes visible, of those never received, and the same of those
--   that were, from p_received_from on. Once a later call gives none of the transactions
--   that have a smaller number than this call's xid, every message that is or ever will be visible has a visible_at of
--   this call's read_at or later, or is seen by that later call: writers take their time after their number, and never
--   write an earlier one. Those of p_held are left out of this: where one has ended, the first message is that from its
--   place in p_held_low on, as scan_from says.
-- Called by: the ReceiveMessage action, at intervals.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- Numbers are in order of time, snapshots say which of them are done (PostgreSQL manual, 9.27.8): read-only
-- transactions have none, so that a snapshot held open keeps nothing back.
create function skipmq.low_watermark(
  p_queue_id integer, p_from timestamptz default null, p_held bigint[] default null, p_held_low bigint[] default null,
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
  -- In a statement of its own: it sees what those have done that are not running any more.
  -- By hand it may have been made infinite, which is more than a client can read.
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
