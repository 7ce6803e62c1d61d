-- Does: moves up to p_limit visible messages from one FIFO queue to another (p_destination null: each to the queue that it
--   came from, if p_origins has that or is null), each group in order; returns the number moved, or null when it moved
--   nothing only because groups were locked. Messages from a queue that was deleted stay, and so do those behind them in
--   their group.
-- Called by: advance_move_tasks.
-- Locks, in order: group rows, skipping locked ones; then those of append_fifo and refresh_groups.
-- Raises: nothing.
-- Relies on index: message_group_available, message_group_order, queue_pkey.
--
-- It always reads the 1,000 groups that have been available longest, since the messages of the first ones may have to
-- stay.
create function skipmq.move_fifo_batch(
  p_source bigint, p_destination bigint, p_limit integer, p_origins text[] default null
) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
  v_groups bigint[];
  v_group bigint;
  v_message record;
  v_touched bigint[] := '{}';
  v_ids bigint[] := '{}';
  v_targets bigint[] := '{}';
  v_count integer := 0;
begin
  select make_interval(secs => q.delay_seconds) into v_delay from skipmq.queue q where q.queue_id = p_source;
  select coalesce(array_agg(h.group_no order by h.available_at), '{}') into v_groups
  from (
    select g.group_no, g.available_at
    from skipmq.message_group g
    where g.queue_id = p_source and g.available_at > '-infinity' and g.available_at <= v_now
    order by g.available_at
    limit 1000
    for no key update skip locked
  ) h;
  <<groups>>
  foreach v_group in array v_groups loop
    for v_message in
      select m.id, coalesce(p_destination, origin.queue_id) as target,
        case when m.receive_count = m.receive_base then m.visible_at + v_delay else m.visible_at end <= v_now as ready
      from skipmq.message m
      left join lateral (
        select q.queue_id
        from skipmq.queue q
        where q.account = split_part(m.dead_letter_source, ':', 5)
          and q.region = split_part(m.dead_letter_source, ':', 4)
          and q.name = split_part(m.dead_letter_source, ':', 6) and q.fifo
          and (p_origins is null or m.dead_letter_source = any (p_origins))
      ) origin on p_destination is null
      where m.queue_id = p_source and m.group_no = v_group
      order by m.sequence_number
    loop
      exit groups when cardinality(v_ids) >= p_limit;
      continue groups when v_message.ready and coalesce(v_message.target, p_source) = p_source;
      if v_group <> all (v_touched) then
        v_touched := v_touched || v_group;
      end if;
      exit when not v_message.ready;
      v_ids := v_ids || v_message.id;
      v_targets := v_targets || v_message.target;
    end loop;
  end loop;
  if v_ids <> '{}' then
    v_count := skipmq.append_fifo(p_source, v_ids, v_targets, 'redriven');
  end if;
  perform skipmq.refresh_groups(p_source, v_touched);
  if v_count = 0 and exists (
    select
    from (
      select g.group_no
      from skipmq.message_group g
      where g.queue_id = p_source and g.available_at > '-infinity' and g.available_at <= v_now
      order by g.available_at
      limit 1000
    ) g
    where g.group_no <> all (v_groups))
  then
    return null;
  end if;
  return v_count;
end $$;
