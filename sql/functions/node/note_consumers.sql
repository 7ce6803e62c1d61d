-- Does: records the consumers of queues that a worker knows: each with milliseconds since its first and its last receive
--   (null: none), totals since the first, the receivers that wait now, and its user agent
--   (null: none). Values replace those of the same consumer.
-- Called by: nodes, every few seconds with what has changed.
-- Locks, in order: rows of the worker's own consumers, by key.
-- Raises: nothing.
-- Relies on index: consumer_pkey.
-- Routed: to the partition of each of p_queue_ids.
create function skipmq.note_consumers(
  p_process text, p_queue_ids bigint[], p_callers text[], p_addresses text[], p_since bigint[], p_last bigint[],
  p_receives bigint[], p_received bigint[], p_deleted bigint[], p_waiting integer[], p_user_agents text[]
) returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set synchronous_commit = off
as $$
  insert into skipmq.consumer as c (
    queue_id, process, caller, address, since, last_receive_at, receives, received, deleted, waiting, user_agent, seen_at)
  select
    u.queue_id, p_process, u.caller, u.address, n.at - u.since * interval '1 ms', n.at - u.last * interval '1 ms',
    u.receives, u.received, u.deleted, u.waiting, u.user_agent, n.at
  from unnest(
    p_queue_ids, p_callers, p_addresses, p_since, p_last, p_receives, p_received, p_deleted, p_waiting,
    p_user_agents
  ) u (queue_id, caller, address, since, last, receives, received, deleted, waiting, user_agent)
  cross join (select skipmq.clock() as at) n
  order by u.queue_id, u.caller, u.address
  on conflict (queue_id, process, caller, address) do update set
    last_receive_at = excluded.last_receive_at, receives = excluded.receives, received = excluded.received,
    deleted = excluded.deleted, waiting = excluded.waiting, user_agent = excluded.user_agent, seen_at = excluded.seen_at;
$$;
