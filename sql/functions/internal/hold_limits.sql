-- Does: has no other transaction claim from a queue with limits, or hide its messages for longer, until this one ends: the
--   messages in flight that the next statement counts are all there are. Returns false when another transaction holds it for
--   longer than 50 ms and p_waits is false.
-- Called by: claim_limited_messages, claim_limited_groups, change_visibility, change_fifo_visibility, change_message_visibility, receive_fifo_attempt.
-- Locks, in order: advisory lock of the queue's limits.
-- Raises: 0A000 in a transaction that is not READ COMMITTED, whose snapshot would be older than the lock.
-- Relies on index: queue_id.
create function skipmq.hold_limits(p_queue_id bigint, p_waits boolean) returns boolean
language plpgsql volatile
as $$
declare
  v_kind constant integer := hashtext('skipmq.limits');
  v_timeout constant text := current_setting('lock_timeout');
begin
  if not exists (
    select from skipmq.queue q
    where q.queue_id = p_queue_id and num_nonnulls(
      q.maximum_in_flight, q.maximum_in_flight_per_group, q.maximum_receive_rate, q.maximum_receive_rate_per_group) > 0)
  then
    return true;
  elsif current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'a queue with limits is used in transactions that are READ COMMITTED' using errcode = '0A000';
  elsif p_waits then
    perform pg_advisory_xact_lock(v_kind, (p_queue_id & 1023)::integer);
    return true;
  end if;
  -- Without a subtransaction where it is free.
  if pg_try_advisory_xact_lock(v_kind, (p_queue_id & 1023)::integer) then
    return true;
  end if;
  begin
    perform set_config('lock_timeout', '50ms', true);
    perform pg_advisory_xact_lock(v_kind, (p_queue_id & 1023)::integer);
    perform set_config('lock_timeout', v_timeout, true);
    return true;
  exception
    when lock_not_available then
      return false;
  end;
end $$;
