-- Does: says what a node must know to begin its claims of a standard queue higher up: the time, the oldest
--   transaction that runs, this one's own number, and when the first message from p_from on (null: of all)
--   became or becomes visible. Once the oldest transaction of a later call is past this call's number,
--   every message that is or ever will be visible has a visible_at of this call's time or later, or is
--   seen by that later call: writers take their time after their number, and never write an earlier one.
-- Called by: the ReceiveMessage action, now and then.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- Numbers are in order of time, snapshots say which of them are done (PostgreSQL manual, 9.27.8): read-only
-- transactions have none, so that a snapshot held open keeps nothing back.
create function skipmq.receive_floor(p_queue_id integer, p_from timestamptz default null)
returns table (looked_at timestamptz, oldest bigint, number bigint, first_visible_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  looked_at := skipmq.clock();
  number := pg_current_xact_id()::text::bigint;
  oldest := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  -- In a statement of its own: it sees what those have done that the snapshot before says are done.
  -- By hand it may have been made infinite, which is more than a client can read.
  first_visible_at := (
    select nullif(greatest(m.visible_at, timestamptz '0001-01-02 00:00+00'), 'infinity')
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
      and m.visible_at >= coalesce(p_from, '-infinity')
    order by m.visible_at
    limit 1);
  return next;
end $$;
