-- Does: returns how many messages a queue's rate allows now, at most p_most, and when it allows the next one
--   (null: now).
-- Called by: claim_limited_messages, claim_fifo_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: receive_rate_pkey.
create function skipmq.rate_allowance(p_queue skipmq.queue, p_now timestamptz, p_most integer, out allowed integer, out next_at timestamptz)
language plpgsql volatile
as $$
declare
  v_rate constant numeric := p_queue.maximum_receive_rate;
  v_burst constant integer := coalesce(p_queue.receive_burst, greatest(ceil(v_rate), 1));
begin
  select least(floor(extract(epoch from p_now - r.used_until) * v_rate) + v_burst, p_most),
    r.used_until - make_interval(secs => ((v_burst - 1) / v_rate)::float8)
  into allowed, next_at
  from skipmq.receive_rate r
  where r.queue_id = p_queue.queue_id and r.key = '' and v_rate is not null and r.used_until > p_now;
  allowed := coalesce(allowed, least(v_burst, p_most));
  if allowed > 0 or next_at <= p_now then
    next_at := null;
  end if;
end $$;
