-- Does: counts a queue's messages: visible, in flight (received, hidden) and delayed (never received).
-- Called by: try_count_messages, add_move_task, the GetQueueAttributes action, `skipmq queue show`; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: those of count_all, message_visible, delayed_count_due; for FIFO message_group_available,
--   message_group_order, message_enqueued.
-- Routed: to the partition of p_queue_id.
--
-- It reads the messages that are not visible, of never received ones those that become so within 30 minutes, and up to 10,000
-- past retention. Those delayed for longer come from their counts. The total comes from the sums, so that
-- visible messages cost nothing.
create function skipmq.count_messages(p_queue_id bigint)
returns table (visible bigint, in_flight bigint, delayed bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_horizon timestamptz;
  v_delay interval;
  v_fifo boolean;
  v_all bigint := skipmq.count_all(p_queue_id);
  v_expired bigint := 0;
  -- Delays up to 900 seconds end before it.
  v_far timestamptz := date_bin('15 minutes', v_now + interval '30 minutes', 'epoch');
begin
  select
    q.fifo, v_now - make_interval(secs => q.message_retention_period), make_interval(secs => q.delay_seconds)
  into v_fifo, v_horizon, v_delay
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo then
    in_flight := skipmq.count_in_flight(p_queue_id, 2147483647);
    -- A message that was never received is delayed from its arrival. Each order forces its index: a plan made while
    -- the queue was empty could use any index that begins with queue_id.
    select count(*) filter (where m.fresh) into delayed
    from (
      select m.receive_count = m.receive_base as fresh
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > greatest(v_now - v_delay, v_horizon)
      order by m.enqueued_at
      limit 2147483647
    ) m;
    select count(*) filter (where not m.in_flight) into v_expired
    from (
      select m.visible_at > v_now and m.receive_count > m.receive_base as in_flight
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at <= v_horizon
      order by m.enqueued_at
      limit 10000
    ) m;
  else
    select
      count(*) filter (where m.receive_count > m.receive_base),
      count(*) filter (where m.receive_count = m.receive_base)
    into in_flight, delayed
    from unnest(skipmq.shards(p_queue_id)) s (shard)
    -- Those that wait for a far time are in a shard of messages never received.
    cross join lateral (
      select case when s.shard = 0 or s.shard between 10 and 19 then v_far - interval '1 microsecond' else 'infinity' end as until) u
    cross join lateral (
      select m.receive_count, m.receive_base from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
        and m.visible_at > v_now and m.visible_at <= u.until
      offset 0
    ) m;
    select delayed + coalesce(sum(d.change), 0) into delayed
    from skipmq.delayed_count d where d.queue_id = p_queue_id and d.due_at >= v_far;
    select count(*) into v_expired
    from (
      select
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = any (skipmq.shards(p_queue_id)) and m.group_no is null and m.visible_at <= v_horizon
      limit 10000
    ) m;
  end if;
  visible := greatest(v_all - v_expired - in_flight - delayed, 0);
  return next;
end $$;
