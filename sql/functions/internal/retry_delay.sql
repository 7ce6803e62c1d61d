-- Does: returns the delay of a queue's RetryBackoff before the redelivery of a message that was received p_receives times:
--   base seconds, times factor for each receive after the first, maximum at most, less a random part of up to jitter.
-- Called by: receive_messages, claim_limited_messages, claim_fifo_messages, change_visibility.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- In PL/pgSQL, so that queues without a RetryBackoff do not pay for its expressions, which would be inlined.
create function skipmq.retry_delay(p_backoff jsonb, p_receives integer) returns interval
language plpgsql volatile
as $$
begin
  return make_interval(secs => least(
    (p_backoff ->> 'maximum')::float8,
    (p_backoff ->> 'base')::float8 * power((p_backoff ->> 'factor')::float8, least(greatest(p_receives, 1), 100) - 1))
    * (1 - (p_backoff ->> 'jitter')::float8 * random()));
end $$;
