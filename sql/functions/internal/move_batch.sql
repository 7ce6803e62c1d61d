-- Does: moves up to p_limit visible messages from one standard queue to another (p_destination null: each to the queue
--   that it came from, if p_origins has that or is null), where each becomes a new message, as in resend; returns the
--   number moved. Messages from a queue that was deleted stay.
-- Called by: advance_move_tasks.
-- Locks, in order: message rows, skipping locked ones.
-- Raises: nothing.
-- Relies on index: message_visible, and those of write_history and resend.
create function skipmq.move_batch(
  p_source bigint, p_destination bigint, p_limit integer, p_origins text[] default null
) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_shard smallint;
  v_tids tid[];
  v_targets bigint[];
  v_count integer := 0;
begin
  foreach v_shard in array array[2, 0] || array_remove(array_remove(skipmq.shards(p_source), 2::smallint), 0::smallint) loop
    select array_agg(h.tid), array_agg(h.target) into v_tids, v_targets
    from (
      select m.ctid as tid, coalesce(p_destination, origin.queue_id) as target
      from skipmq.message m
      left join lateral (
        select q.queue_id
        from skipmq.queue q
        where q.account = split_part(m.dead_letter_source, ':', 5)
          and q.region = split_part(m.dead_letter_source, ':', 4)
          and q.name = split_part(m.dead_letter_source, ':', 6)
          and (p_origins is null or m.dead_letter_source = any (p_origins))
      ) origin on p_destination is null
      where m.queue_id = p_source and m.shard = v_shard and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= v_now
        and coalesce(p_destination, origin.queue_id) <> p_source
      order by m.visible_at
      limit p_limit - v_count
      for no key update of m skip locked
    ) h;
    if v_tids is not null then
      v_count := v_count + skipmq.resend(p_source, v_tids, v_targets, v_now);
    end if;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
