-- Does: sends the message of a schedule for the tick at p_due, and keeps the tick with the last 99 others; does nothing where that
--   tick was sent already.
-- Called by: advance_schedule, change_schedule.
-- Locks, in order: those of hold_queue and send_messages or send_fifo_messages. The caller has locked the schedule.
-- Raises: SQ001 when the queue does not exist; what send_messages and send_fifo_messages raise.
-- Relies on index: schedule_tick_pkey, queue_pkey, queue_id.
create function skipmq.send_tick(p_schedule skipmq.schedule, p_due timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_queue_id bigint;
  v_jitter integer;
  v_message_id uuid := gen_random_uuid();
  v_text text := concat_ws(' ', p_schedule.name, extract(epoch from p_due));
begin
  insert into skipmq.schedule_tick (account, region, name, due_at, ran_at, message_id)
  values (p_schedule.account, p_schedule.region, p_schedule.name, p_due, skipmq.clock(), v_message_id)
  on conflict do nothing;
  if not found then
    return;
  end if;
  v_queue_id := skipmq.hold_queue(p_schedule.queue, p_schedule.account, p_schedule.region);
  if p_schedule.queue like '%.fifo' then
    perform from skipmq.send_fifo_messages(
      v_queue_id, array[v_message_id], array[p_schedule.body], array[p_schedule.attributes::text],
      array[p_schedule.group_id], array[md5(v_text)], array[null::text], 'schedule');
  else
    select least(p_schedule.jitter, q.maximum_delay_seconds) into v_jitter from skipmq.queue q where q.queue_id = v_queue_id;
    perform skipmq.send_messages(
      v_queue_id, array[v_message_id], array[p_schedule.body], array[p_schedule.attributes::text],
      -- By the tick, so that its jitter is the same on every node.
      array[case when v_jitter > 0 then (hashtextextended(v_text, 0) & 1048575) % (v_jitter + 1) end]::integer[],
      array[p_schedule.group_id], array[null::text], 'schedule');
  end if;
  delete from skipmq.schedule_tick t
  where t.account = p_schedule.account and t.region = p_schedule.region and t.name = p_schedule.name
    and t.due_at < (
      select o.due_at from skipmq.schedule_tick o
      where o.account = t.account and o.region = t.region and o.name = t.name
      order by o.due_at desc offset 99 limit 1);
end $$;
