-- Does: moves the given rows of a standard queue, which the caller has locked, to its dead-letter queue, where they are
--   visible immediately, and writes history rows; returns the number moved, 0 when the queue was purged meanwhile.
-- Called by: move_to_dead_letter_queue, dead_letter_message.
-- Locks, in order: none; the caller holds the queue row of the dead-letter queue (key share) and the message rows; then those of note_failure_kinds.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), queue_id, and those of write_history and note_failure_kinds.
--
-- The move increments the fencing token, so that old receipts no longer match, and receive_base, so that the receive count
-- that users see stays the same; arrival_count has that count, since the new queue's redrive policy counts from there.
create function skipmq.dead_letter(p_queue_id bigint, p_tids tid[], p_target bigint, p_now timestamptz) returns integer
language plpgsql volatile
as $$
declare
  v_source record;
  v_count integer;
  v_failed bigint[];
begin
  select q.account, q.region, q.name into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then
    return 0;
  end if;
  perform skipmq.write_history(p_tids, 'dead-lettered', p_now);
  with moved as (
    update skipmq.message m set
      queue_id = p_target,
      shard = 0,
      visible_at = p_now,
      receive_count = least(m.receive_count, 2147483645) + 1,
      receive_base = least(m.receive_base, 2147483644) + 1,
      arrival_count = m.receive_count - m.receive_base,
      dead_letter_source = format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
    where m.ctid = any (p_tids)
    returning m.id, m.attributes
  )
  select count(*), array_agg(m.id) filter (where strpos(m.attributes, '"FailureReason"') > 0) into v_count, v_failed from moved m;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change, event)
    values (p_now, p_queue_id, -v_count, 'dead-lettered'), (p_now, p_target, v_count, 'moved-in');
  end if;
  if v_failed is not null then
    perform skipmq.note_failure_kinds(p_target, v_failed, p_now);
  end if;
  return v_count;
end $$;
