-- Does: returns for how many seconds the oldest message of a queue has been in it: of those that are visible or in flight,
--   not of delayed ones (null: there is none).
-- Called by: try_oldest_message, the GetQueueActivity action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_received, message_visible; for FIFO message_enqueued.
-- Routed: to the partition of p_queue_id.
--
-- In a standard queue messages that were never received are in the order of the times at which they became visible, so
-- that of those with a delay of their own the first may not be the oldest, by at most that delay.
create function skipmq.oldest_message(p_queue_id bigint, p_fifo boolean) returns float8
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
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
  return extract(epoch from v_now - least(
    (
      select m.enqueued_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is null and m.receive_count > m.receive_base
        and m.enqueued_at > '-infinity'
      order by m.enqueued_at
      limit 1
    ), (
      select min(f.enqueued_at)
      from unnest('{0,1}'::smallint[]) s (shard)
      cross join lateral (
        select m.enqueued_at
        from skipmq.message m
        where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
          and m.visible_at > '-infinity' and m.visible_at <= v_now
        order by m.visible_at
        limit 1
      ) f)));
end $$;
