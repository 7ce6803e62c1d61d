-- Does: delivers a delayed message of the named standard queue at another time, earlier or later, in the caller's transaction; returns
--   whether it was delayed still.
-- Called by: SQL users.
-- Locks, in order: those of granted_queue, then of reschedule_messages.
-- Raises: what granted_queue and reschedule_messages raise; SQ008 when the time is later than the queue's maximum delay.
-- Relies on index: those of reschedule_messages.
-- Routed: to the partition of p_queue.
create function skipmq.reschedule_message(
  p_queue text,
  p_message_id uuid,
  p_deliver_at timestamptz,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint := skipmq.granted_queue('send', p_queue, p_account, p_region);
  v_outcome text;
begin
  select r.outcome into v_outcome
  from skipmq.reschedule_messages(
    v_queue_id, array[null::bigint], array[p_message_id],
    least(greatest(ceil(extract(epoch from p_deliver_at) - extract(epoch from skipmq.clock())), 0), 2147483647)::integer) r;
  if v_outcome = 'beyond-limit' then
    raise exception 'A message of the queue % can be delayed by at most % seconds.', skipmq.shown(p_queue),
      (select greatest(q.maximum_delay_seconds, 43200) from skipmq.queue q where q.queue_id = v_queue_id) using errcode = 'SQ008';
  end if;
  return v_outcome = 'changed';
end $$;
