-- Does: hides a received message of the named queue, standard or FIFO, for p_visibility_timeout seconds from now (0: makes
--   it visible), with p_reason as its attribute FailureReason and among its failures. Returns false when the message was settled or received
--   again or, in a FIFO queue, is visible.
-- Called by: SQL users.
-- Locks, in order: those of granted_queue; those of hold_limits, then the message row; or those of change_fifo_visibility.
-- Raises: what granted_queue, hold_limits and check_timeouts raise; SQ001 when the queue does not exist, SQ011 without a timeout.
-- Relies on index: queue_pkey, and those of the functions it calls.
-- Routed: to the partition of p_queue.
create function skipmq.change_message_visibility(
  p_queue text,
  p_id bigint,
  p_receive_count integer,
  p_message_id uuid,
  p_visibility_timeout integer,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1'),
  p_reason text default null
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint := skipmq.granted_queue('receive', p_queue, p_account, p_region);
  v_outcome text;
begin
  if p_visibility_timeout is null then
    raise exception 'The request must contain the parameter VisibilityTimeout.' using errcode = 'SQ011';
  elsif p_queue collate "C" like '%.fifo' then
    select c.outcome into v_outcome
    from skipmq.change_fifo_visibility(
      v_queue_id, array[p_id], array[p_receive_count], array[p_message_id], null, array[p_visibility_timeout]) c;
  else
    -- Before the row, as all that change visibility.
    perform skipmq.hold_limits(v_queue_id, true);
    -- Exact, unlike an old receipt over HTTP: a late worker must not show what another one has received.
    perform from skipmq.message m
    where m.id = p_id and m.queue_id = v_queue_id and m.receive_count = p_receive_count
      and m.message_id = p_message_id
    for no key update;
    if not found then
      return false;
    end if;
    select c.outcome into v_outcome
    from skipmq.change_visibility(
      v_queue_id, array[p_id], array[p_receive_count], array[p_message_id], null, array[p_visibility_timeout]) c;
  end if;
  if v_outcome = 'changed' and p_reason is not null then
    -- Of the receive that failed: not of one since.
    update skipmq.message m set
      attributes = skipmq.note_failure(m.attributes, p_reason),
      failures = skipmq.add_failure(m.failures, m.sent_at, m.receive_count - m.receive_base, p_reason, null)
    where m.id = p_id and m.queue_id = v_queue_id and m.receive_count = p_receive_count
      and m.message_id = p_message_id;
  end if;
  return v_outcome = 'changed';
end $$;
