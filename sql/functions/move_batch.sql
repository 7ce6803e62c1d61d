-- Does: moves up to p_limit visible messages from one standard queue to another (p_destination null: each
--   to the queue it came from), where they are visible at once and their receive count starts again; gives
--   their number. What came from a queue that is gone stays.
-- Called by: advance_move_tasks.
-- Locks, in order: message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.move_batch(p_source integer, p_destination integer, p_limit integer) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_shard smallint;
  v_count integer := 0;
begin
  foreach v_shard in array array[0, 1] loop
    with head as materialized (
      select m.ctid as tid, coalesce(p_destination, origin.queue_id) as target
      from skipmq.message m
      left join lateral (
        select q.queue_id
        from skipmq.queue q
        where q.account = split_part(m.dead_letter_source, ':', 5)
          and q.region = split_part(m.dead_letter_source, ':', 4)
          and q.name = split_part(m.dead_letter_source, ':', 6)
      ) origin on p_destination is null
      where m.queue_id = p_source and m.shard = v_shard and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= v_now
        and coalesce(p_destination, origin.queue_id) <> p_source
      order by m.visible_at
      limit p_limit - v_count
      for no key update of m skip locked
    ), moved as (
      update skipmq.message m set
        queue_id = h.target,
        shard = 0,
        visible_at = v_now,
        receive_count = m.receive_count + 1,
        receive_base = m.receive_count + 1,
        first_received_at = null,
        dead_letter_source = null
      from head h
      where m.ctid = h.tid
      returning m.queue_id
    ), counted as (
      insert into skipmq.queue_delta (at, queue_id, change)
      select v_now, c.queue_id, sum(c.change)
      from moved m
      cross join lateral (values (m.queue_id, 1), (p_source, -1)) c (queue_id, change)
      group by c.queue_id
    )
    select v_count + count(*) into v_count from moved;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
