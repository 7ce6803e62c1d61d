-- Does: counts messages that are received against the rate of their queue and of their groups, of which p_keys has one
--   element for each message, null where it has no group.
-- Called by: claim_limited_messages, claim_fifo_messages.
-- Locks, in order: rows of receive_rate, by key.
-- Raises: nothing.
-- Relies on index: receive_rate_pkey.
create function skipmq.use_rates(p_queue skipmq.queue, p_now timestamptz, p_keys text[]) returns void
language sql volatile
as $$
  insert into skipmq.receive_rate as r (queue_id, key, used_until)
  select p_queue.queue_id, u.key, p_now + u.used
  from (
    select '' as key, make_interval(secs => (cardinality(p_keys) / p_queue.maximum_receive_rate)::float8) as used
    union all
    select k.key, make_interval(secs => (count(*) / p_queue.maximum_receive_rate_per_group)::float8)
    from unnest(p_keys) k (key)
    where k.key is not null
    group by k.key
  ) u
  where u.used is not null
  order by u.key
  on conflict on constraint receive_rate_pkey do update set
    used_until = greatest(r.used_until, p_now) + (excluded.used_until - p_now)
$$;
