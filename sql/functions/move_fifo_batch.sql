-- Does: moves up to p_limit visible messages from one FIFO queue to another (p_destination null: each to
--   the queue it came from), each group in order; gives their number. What came from a queue that is gone
--   stays, and its group behind it.
-- Called by: advance_move_tasks.
-- Locks, in order: group rows, skipping those that others hold; then those of append_fifo and
--   refresh_groups.
-- Raises: nothing.
-- Relies on index: message_group_available, message_group_order, queue_pkey.
create function skipmq.move_fifo_batch(p_source integer, p_destination integer, p_limit integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
  v_groups bigint[];
  v_ids bigint[];
  v_targets integer[];
  v_count integer := 0;
begin
  select make_interval(secs => q.delay_seconds) into v_delay from skipmq.queue q where q.queue_id = p_source;
  select array_agg(h.group_no order by h.available_at) into v_groups
  from (
    select g.group_no, g.available_at
    from skipmq.message_group g
    where g.queue_id = p_source and g.available_at > '-infinity' and g.available_at <= v_now
    order by g.available_at
    limit p_limit
    for no key update skip locked
  ) h;
  select array_agg(c.id order by c.place, c.sequence_number), array_agg(c.target order by c.place, c.sequence_number)
  into v_ids, v_targets
  from (
    select l.*, h.place
    from unnest(v_groups) with ordinality h (group_no, place)
    cross join lateral (
      select m.*, bool_and(m.ready and m.target <> p_source) over (order by m.sequence_number) as wanted
      from (
        select m.id, m.sequence_number, coalesce(p_destination, origin.queue_id) as target,
          case when m.receive_count = m.receive_base then m.visible_at + v_delay else m.visible_at end
            <= v_now as ready
        from skipmq.message m
        left join lateral (
          select q.queue_id
          from skipmq.queue q
          where q.account = split_part(m.dead_letter_source, ':', 5)
            and q.region = split_part(m.dead_letter_source, ':', 4)
            and q.name = split_part(m.dead_letter_source, ':', 6) and q.fifo
        ) origin on p_destination is null
        where m.queue_id = p_source and m.group_no = h.group_no
        order by m.sequence_number
        limit p_limit
      ) m
    ) l
    where l.wanted
    order by h.place, l.sequence_number
    limit p_limit
  ) c;
  if v_ids is not null then
    v_count := skipmq.append_fifo(p_source, v_ids, v_targets, 'redriven');
  end if;
  perform skipmq.refresh_groups(p_source, v_groups);
  return v_count;
end $$;
