-- Does: returns whether move_batch, or for FIFO move_fifo_batch, would find a message to move now, counting locked ones.
-- Called by: advance_move_tasks.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible, queue_pkey; for FIFO message_group_available, message_group_order.
create function skipmq.is_redrivable(p_source bigint, p_destination bigint, p_fifo boolean) returns boolean
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
begin
  if not p_fifo then
    return exists (
      select
      from skipmq.message m
      left join lateral (
        select q.queue_id
        from skipmq.queue q
        where q.account = split_part(m.dead_letter_source, ':', 5)
          and q.region = split_part(m.dead_letter_source, ':', 4)
          and q.name = split_part(m.dead_letter_source, ':', 6)
      ) origin on p_destination is null
      where m.queue_id = p_source and m.shard = any (skipmq.shards(p_source)) and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= v_now
        and coalesce(p_destination, origin.queue_id) <> p_source);
  end if;
  return exists (
    select
    from (
      select g.group_no
      from skipmq.message_group g
      where g.queue_id = p_source and g.available_at > '-infinity' and g.available_at <= v_now
      order by g.available_at
      limit 1000
    ) g
    cross join lateral (
      select m.dead_letter_source
      from skipmq.message m
      where m.queue_id = p_source and m.group_no = g.group_no
      order by m.sequence_number
      limit 1
    ) m
    where coalesce(p_destination, skipmq.queue_of_arn(m.dead_letter_source)) <> p_source);
end $$;
