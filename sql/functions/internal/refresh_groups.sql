-- Does: recomputes when groups of a FIFO queue, which the caller has locked, can yield their first message, and deletes
--   the rows of empty ones.
-- Called by: clear_group, delete_fifo_messages, change_fifo_visibility, return_fifo_messages, expire_fifo,
--   move_fifo_batch, move_messages, dead_letter_message, receive_fifo_attempt, delete_picked_messages,
--   advance_message_task, erase_messages, release_messages.
-- Locks, in order: those of hold_groups for empty groups, if free: the row stays when a sender is about to commit, and
--   where the transaction has locked many. Under REPEATABLE READ and SERIALIZABLE it always stays, since the snapshot does not show later sends.
-- Raises: nothing.
-- Relies on index: queue_id, message_group_pkey, message_group_order.
create function skipmq.refresh_groups(p_queue_id bigint, p_groups bigint[]) returns void
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
  v_empty bigint[];
  v_free bigint[];
  v_busy bigint[];
  v_count bigint;
begin
  -- The queue may have been purged or deleted: the delay then has no effect.
  v_delay := coalesce((
    select make_interval(secs => q.delay_seconds) from skipmq.queue q where q.queue_id = p_queue_id), '0');
  with head as materialized (
    select g.ctid as tid, g.group_no, f.sequence_number, f.available_at
    from unnest(p_groups) u (group_no)
    cross join lateral (
      select g.ctid, g.group_no, g.first_number
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.group_no = u.group_no
    ) g
    left join lateral (
      select m.sequence_number,
        case when m.receive_count = m.receive_base then m.visible_at + v_delay else m.visible_at end as available_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number >= g.first_number
      order by m.sequence_number
      limit 1
    ) f on true
  ), refreshed as (
    update skipmq.message_group g set available_at = h.available_at, first_number = h.sequence_number
    from head h
    where g.ctid = h.tid and h.sequence_number is not null
  )
  select array_agg(h.group_no) into v_empty from head h where h.sequence_number is null;

  if v_empty is null then
    return;
  end if;
  if current_setting('transaction_isolation') = 'read committed' then
    v_busy := skipmq.hold_groups(p_queue_id, v_empty, p_waits => null);
    v_free := v_empty;
    if v_busy <> '{}' then
      v_free := array(select unnest(v_empty) except all select unnest(v_busy));
    end if;
  end if;
  -- A separate statement, which sees what was committed before the lock was taken.
  delete from skipmq.message_group g
  using unnest(v_free) f (group_no)
  where g.queue_id = p_queue_id and g.group_no = f.group_no
    and (
      select m.id
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no = f.group_no
      order by m.sequence_number
      limit 1) is null;
  get diagnostics v_count = row_count;
  if v_count = cardinality(v_empty) then
    return;
  end if;
  -- A sender may hold the locks of the remaining groups: read them again after its commit.
  update skipmq.message_group g set available_at = v_now + interval '10 milliseconds'
  from unnest(v_empty) e (group_no)
  where g.queue_id = p_queue_id and g.group_no = e.group_no;
end $$;
