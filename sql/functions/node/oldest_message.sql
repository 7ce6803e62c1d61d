-- Does: returns for how many seconds the oldest message of a queue has been in it: of those that are visible or in flight,
--   not of delayed ones (null: there is none).
-- Called by: try_oldest_message, the GetQueueActivity action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_pkey, message_visible; for FIFO message_enqueued.
-- Routed: to the partition of p_queue_id.
--
-- The messages of a standard queue arrived in the order of their ids, but for those of a queue that was moved: the 48 low bits
-- of an id are its number, the others that of the partition which gave it, so that each partition's are read by themselves.
-- Most delayed messages were sent within the last 15 minutes. Where the first other one was delayed for longer, or 10,000 of them precede the first other one, that which became
-- visible first is returned, which may not be the oldest, by at most that time.
create function skipmq.oldest_message(p_queue_id bigint, p_fifo boolean) returns float8
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
  v_from bigint := 0;
  v_id bigint;
  v_enqueued_at timestamptz;
  v_oldest timestamptz;
  v_far boolean := false;
  v_is_far boolean;
begin
  if p_fifo then
    select make_interval(secs => q.delay_seconds) into v_delay from skipmq.queue q where q.queue_id = p_queue_id;
    return (
      -- When the first to arrive is delayed, all are.
      select case
        when m.receive_count > m.receive_base or m.enqueued_at <= v_now - v_delay
          then extract(epoch from v_now - m.enqueued_at) end
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > '-infinity'
      order by m.enqueued_at
      limit 1);
  end if;
  while v_from >= 0 loop
    v_id := null;
    select f.id, f.enqueued_at, f.far into v_id, v_enqueued_at, v_is_far
    from (
      select m.id, m.enqueued_at, m.visible_at <= v_now or m.receive_count > m.receive_base as counts,
        m.enqueued_at > m.sent_at as far
      from skipmq.message m
      where m.queue_id = p_queue_id and m.id >= v_from
      order by m.id
      limit 10000
    ) f
    where f.counts
    order by f.id
    limit 1;
    exit when v_id is null;
    v_oldest := least(v_oldest, v_enqueued_at);
    v_far := v_far or v_is_far;
    v_from := ((v_id >> 48) + 1) << 48;
  end loop;
  if v_oldest is null or v_far then
    select least(v_oldest, min(f.enqueued_at)) into v_oldest
    from unnest(skipmq.shards(p_queue_id)) s (shard)
    -- All messages of these shards were received.
    cross join lateral (select case when s.shard = 2 or s.shard between 20 and 29 then 'infinity' else v_now end) u (until)
    cross join lateral (
      select m.enqueued_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= u.until
      order by m.visible_at
      limit 1
    ) f;
  end if;
  return extract(epoch from v_now - v_oldest);
end $$;
