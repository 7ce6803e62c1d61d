-- Does: turns the given rows of a standard queue, which the caller has locked, into new messages of the standard queues in
--   p_targets: with a new id, sent now, never received. Writes history rows of the old ones, as redriven. Returns their
--   number.
-- Called by: move_batch, move_messages.
-- Locks, in order: none except the caller's.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), and those of write_history.
--
-- Source: SQS Developer Guide, "Learn how to configure a dead-letter queue redrive": a redriven message is a new
-- message, whose retention period starts again.
create function skipmq.resend(p_source bigint, p_tids tid[], p_targets bigint[], p_now timestamptz) returns integer
language plpgsql volatile
as $$
declare
  v_count integer;
begin
  perform skipmq.write_history(p_tids, 'redriven', p_now);
  perform skipmq.count_delayed(array_agg(m.queue_id), array_agg(m.enqueued_at), -1)
  from skipmq.message m where m.ctid = any (p_tids) and m.enqueued_at > p_now
  having count(*) > 0;
  with moved as (
    update skipmq.message m set
      id = nextval('skipmq.message_id_seq'),
      message_id = gen_random_uuid(),
      queue_id = t.target,
      shard = 0,
      visible_at = p_now,
      sent_at = p_now,
      enqueued_at = p_now,
      receive_count = 0,
      receive_base = 0,
      arrival_count = null,
      first_received_at = null,
      dead_letter_source = null
    from unnest(p_tids, p_targets) t (tid, target)
    where m.ctid = t.tid
    returning m.queue_id
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event)
    select p_now, c.queue_id, sum(c.change), c.event
    from moved m
    cross join lateral (values (m.queue_id, 1, 'moved-in'), (p_source, -1, 'redriven')) c (queue_id, change, event)
    group by c.queue_id, c.event
  )
  select count(*) into v_count from moved;
  return v_count;
end $$;
