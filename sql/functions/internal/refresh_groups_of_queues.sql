-- Does: recomputes when groups of several FIFO queues, which the caller has locked, can yield their first message, and deletes the
--   rows of empty ones, as refresh_groups does for one queue. The arrays are parallel.
-- Called by: delete_from_fifo_queues.
-- Locks, in order: as refresh_groups.
-- Raises: nothing.
-- Relies on index: queue_id, message_group_pkey, message_group_order.
create function skipmq.refresh_groups_of_queues(p_queue_ids bigint[], p_groups bigint[]) returns void
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queues bigint[];
  v_empty bigint[];
  v_busy bigint[] := '{}';
  v_count bigint;
begin
  with head as materialized (
    select g.ctid as tid, g.queue_id, g.group_no, f.sequence_number, f.available_at
    from unnest(p_queue_ids, p_groups) u (queue_id, group_no)
    cross join lateral (
      select g.ctid, g.queue_id, g.group_no, g.first_number
      from skipmq.message_group g
      where g.queue_id = u.queue_id and g.group_no = u.group_no
    ) g
    left join lateral (
      select m.sequence_number, case when m.receive_count = m.receive_base then
        m.visible_at + coalesce((
          select make_interval(secs => q.delay_seconds) from skipmq.queue q where q.queue_id = g.queue_id), '0')
        else m.visible_at end as available_at
      from skipmq.message m
      where m.queue_id = g.queue_id and m.group_no = g.group_no and m.sequence_number >= g.first_number
      order by m.sequence_number
      limit 1
    ) f on true
  ), refreshed as (
    update skipmq.message_group g set available_at = h.available_at, first_number = h.sequence_number
    from head h
    where g.ctid = h.tid and h.sequence_number is not null
  )
  select array_agg(h.queue_id), array_agg(h.group_no) into v_queues, v_empty from head h where h.sequence_number is null;

  if v_empty is null then
    return;
  end if;
  if current_setting('transaction_isolation') = 'read committed' then
    v_busy := skipmq.hold_groups_of_queues(v_queues, v_empty, p_few => true);
  else
    v_busy := v_empty;
  end if;
  -- A separate statement, which sees what was committed before the lock was taken.
  delete from skipmq.message_group g
  using unnest(v_queues, v_empty) e (queue_id, group_no)
  where g.queue_id = e.queue_id and g.group_no = e.group_no and e.group_no <> all (v_busy)
    and (
      select m.id
      from skipmq.message m
      where m.queue_id = e.queue_id and m.group_no = e.group_no
      order by m.sequence_number
      limit 1) is null;
  get diagnostics v_count = row_count;
  if v_count = cardinality(v_empty) then
    return;
  end if;
  -- A sender may hold the locks of the remaining groups: read them again after its commit.
  update skipmq.message_group g set available_at = v_now + interval '10 milliseconds'
  from unnest(v_queues, v_empty) e (queue_id, group_no)
  where g.queue_id = e.queue_id and g.group_no = e.group_no;
end $$;
