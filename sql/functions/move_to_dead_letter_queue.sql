-- Does: moves up to p_limit visible messages of a shard of a standard queue that were received p_most times to its
--   dead-letter queue, where they are visible immediately, and writes history rows; returns the number moved.
-- Called by: clear_head.
-- Locks, in order: queue row of the dead-letter queue (key share, so that it is neither purged nor deleted), message
--   rows, skipping locked ones.
-- Raises: nothing.
-- Relies on index: message_visible, and those of write_history.
--
-- The move increments the fencing token, so that old receipts no longer match, and receive_base, so that the receive count
-- that users see stays the same.
create function skipmq.move_to_dead_letter_queue(
  p_queue_id integer, p_shard smallint, p_target integer, p_most integer, p_from timestamptz, p_to timestamptz, p_limit integer
) returns integer
language plpgsql volatile
as $$
declare
  v_source record;
  v_now timestamptz;
  v_tids tid[];
  v_count integer;
begin
  select q.account, q.region, q.name into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then -- Purged or deleted meanwhile.
    return 0;
  end if;
  perform from skipmq.queue q where q.queue_id = p_target for key share;
  if not found then
    return 0;
  end if;
  v_now := skipmq.write_time();
  v_tids := array(
    select m.ctid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
      and m.visible_at >= p_from and m.visible_at <= p_to
      and m.receive_count - m.receive_base >= p_most
    order by m.visible_at
    limit p_limit
    for no key update skip locked);
  perform skipmq.write_history(v_tids, 'dead-lettered', v_now);
  update skipmq.message m set
    queue_id = p_target,
    shard = 0,
    visible_at = v_now,
    receive_count = m.receive_count + 1,
    receive_base = m.receive_base + 1,
    dead_letter_source = format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
  where m.ctid = any (v_tids);
  get diagnostics v_count = row_count;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change, event)
    values (v_now, p_queue_id, -v_count, 'dead-lettered'), (v_now, p_target, v_count, 'moved-in');
  end if;
  return v_count;
end $$;
