-- Does: returns, in place of a trouble that blames the consumers of a queue (not-received, receivers-idle, behind), what its
--   oldest messages wait for: a paused group (group-paused), with its name, by whom and the seconds since; or a limit that is
--   reached (limited). Otherwise, and where a damaged page keeps them from being read, p_trouble alone.
-- Called by: queue_troubles, queue_statistics.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, message_visible, paused_group_pkey; for FIFO message_enqueued; those of count_in_flight and group_allowances.
--
-- A rate of the queue is reached when p_rate, its deliveries a second, is nine tenths of it. Of each lane the first 1,000 visible
-- messages are read: consumers are to blame when one of them could be received and is older than the bound of the trouble.
create function skipmq.held_back(
  p_queue_id bigint, p_trouble text, p_rate float8, out trouble text, out reason text, out seconds float8
)
language plpgsql stable
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queue skipmq.queue;
  v_keys text[]; v_most integer[];
  v_group text; v_free timestamptz;
  v_bound constant interval := case p_trouble when 'receivers-idle' then '1 minute' else '10 minutes' end;
begin
  trouble := p_trouble;
  select q.* into v_queue
  from skipmq.queue q
  where q.queue_id = p_queue_id and q.limited and p_trouble in ('not-received', 'receivers-idle', 'behind');
  if not found then
    return;
  elsif v_queue.maximum_in_flight <= skipmq.count_in_flight(p_queue_id, coalesce(v_queue.maximum_in_flight, 0)) then
    select 'limited', format('its limit of %s in flight', v_queue.maximum_in_flight) into trouble, reason;
    return;
  elsif p_rate >= 0.9 * v_queue.maximum_receive_rate then
    select 'limited', format('its limit of %s deliveries a second', v_queue.maximum_receive_rate) into trouble, reason;
    return;
  end if;
  if v_queue.maximum_in_flight_per_group is not null and not v_queue.fifo then
    select array_agg(c.group_id), array_agg(v_queue.maximum_in_flight_per_group - c.number)
    into v_keys, v_most
    from (
      select m.group_id, count(*)::integer as number
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = any (skipmq.shards(p_queue_id)) and m.group_no is null
        and m.visible_at > v_now and m.receive_count > m.receive_base and m.group_id is not null
      group by m.group_id
    ) c;
  end if;
  with full_groups as materialized (
    select a.key
    from skipmq.group_allowances(
      v_queue, v_now, coalesce(v_queue.receive_burst, greatest(ceil(v_queue.maximum_receive_rate_per_group), 1))::integer,
      v_keys, v_most) a
    where a.most <= 0
  ), first_messages as materialized (
    select m.group_id, m.enqueued_at,
      case when v_queue.fifo then m.group_no::text else m.group_id end in (select f.key from full_groups f) as held
    from (
      (select m.* from unnest(skipmq.shards(p_queue_id)) s (shard)
      cross join lateral (
        select m.group_id, m.group_no, m.enqueued_at
        from skipmq.message m
        where not v_queue.fifo and m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null and m.visible_at <= v_now
        order by m.visible_at limit 1000
      ) m)
      union all
      (select m.group_id, m.group_no, m.enqueued_at
      from skipmq.message m
      where v_queue.fifo and m.queue_id = p_queue_id and m.group_no is not null and m.visible_at <= v_now
        and m.enqueued_at <= v_now - make_interval(secs => v_queue.delay_seconds)
      order by m.enqueued_at limit 1000)
    ) m
  )
  select
    (select f.group_id from first_messages f where f.held order by f.enqueued_at limit 1),
    (select min(f.enqueued_at) from first_messages f where f.held is not true)
  into v_group, v_free;
  if v_group is null or v_free < v_now - v_bound then
    return;
  end if;
  select 'group-paused', format('%s, which %s paused', g.group_id, g.paused_by), extract(epoch from v_now - g.paused_at)::float8
  into trouble, reason, seconds
  from skipmq.paused_group g
  where g.queue_id = p_queue_id and g.group_id = v_group and (g.until is null or g.until > v_now);
  if not found then
    select 'limited', format('a limit of its group %s', v_group) into trouble, reason;
  end if;
exception
  when data_corrupted or index_corrupted or io_error then
    trouble := p_trouble;
end $$;
