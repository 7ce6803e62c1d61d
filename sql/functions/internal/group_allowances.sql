-- Does: returns the groups of a queue from which less may be received than from any other: those in p_keys, which have messages
--   in flight and room for p_most, those that used up their rate, and paused ones; with how much, zero or less for nothing.
-- Called by: claim_limited_messages, claim_fifo_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: receive_rate_pkey, paused_group_pkey.
create function skipmq.group_allowances(
  p_queue skipmq.queue, p_now timestamptz, p_burst integer, p_keys text[] default null, p_most integer[] default null
) returns table (key text, most integer)
language sql volatile
as $$
  select a.key, min(a.most)
  from (
    select k.key, k.most from unnest(p_keys, p_most) k (key, most)
    union all
    select case when p_queue.fifo then hashtextextended(r.key, p_queue.queue_id)::text else r.key end,
      greatest(floor(extract(epoch from p_now - r.used_until) * p_queue.maximum_receive_rate_per_group) + p_burst, 0)::integer
    from skipmq.receive_rate r
    where r.queue_id = p_queue.queue_id and r.key <> '' and r.used_until > p_now
      and p_queue.maximum_receive_rate_per_group is not null
    union all
    select case when p_queue.fifo then hashtextextended(g.group_id, p_queue.queue_id)::text else g.group_id end, 0
    from skipmq.paused_group g
    where g.queue_id = p_queue.queue_id and (g.until is null or g.until > p_now)
  ) a
  group by a.key
$$;
