-- Does: moves a received message of the named queue, standard or FIFO, to the queue's dead-letter queue, with p_reason as
--   its attribute FailureReason and among its failures, as p_receiver's (null: this session's); returns false when it was settled, was received again after the receive named by
--   p_receive_count or, in a FIFO queue, is visible.
-- Called by: SQL users; nodes, for DeadLetterMessage.
-- Locks, in order: those of granted_queue; queue row of the dead-letter queue (key share, so that it is neither
--   purged nor deleted), group row, message row, and those of append_fifo.
-- Raises: what granted_queue raises; SQ001 when there is no such queue, SQ007 when it has no dead-letter queue; 55P03 when
--   a transaction is sending to the message's group of a FIFO dead-letter queue: call again.
-- Relies on index: queue_pkey, message_pkey, and those of lock_groups, dead_letter, append_fifo and refresh_groups.
-- Routed: to the partition of p_queue.
create function skipmq.dead_letter_message(
  p_queue text,
  p_id bigint,
  p_receive_count integer,
  p_message_id uuid,
  p_reason text default null,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1'),
  p_receiver text default null
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_fifo boolean := p_queue collate "C" like '%.fifo';
  v_queue_id bigint := skipmq.granted_queue('receive', p_queue, p_account, p_region);
  v_target bigint;
  v_groups bigint[];
  v_now timestamptz;
  v_tid tid;
  v_count integer;
begin
  loop
    v_target := skipmq.dead_letter_queue(v_queue_id);
    if v_target is null then
      raise exception 'The queue has no dead-letter queue.' using errcode = 'SQ007',
        hint = format('skipmq queue set %s RedrivePolicy=…', skipmq.shown(p_queue));
    end if;
    perform from skipmq.queue q where q.queue_id = v_target for key share;
    exit when found; -- Otherwise it was purged meanwhile.
  end loop;
  if v_fifo then
    v_groups := skipmq.lock_groups(v_queue_id, array[p_id]);
  end if;
  v_now := skipmq.write_time();
  update skipmq.message m set
    attributes = skipmq.note_failure(m.attributes, p_reason),
    failures = skipmq.add_failure(m.failures, m.sent_at, m.receive_count - m.receive_base, p_reason, p_receiver)
  where m.id = p_id and m.queue_id = v_queue_id and m.receive_count = p_receive_count
    and m.message_id = p_message_id
    and (not v_fifo or m.visible_at > v_now)
  returning m.ctid into v_tid;
  if v_tid is null then
    return false;
  elsif v_fifo then
    v_count := skipmq.append_fifo(v_queue_id, array[p_id], array[v_target], 'dead-lettered');
    perform skipmq.refresh_groups(v_queue_id, v_groups);
    if v_count = 0 then
      raise exception 'a transaction is sending to the message''s group in the dead-letter queue: try again'
        using errcode = '55P03';
    end if;
  else
    v_count := skipmq.dead_letter(v_queue_id, array[v_tid], v_target, v_now);
  end if;
  return v_count = 1;
end $$;
