-- Does: returns why a redrive without a destination moved nothing although messages are visible: their source is unknown,
--   or was deleted; null otherwise. It reads up to 1,000 messages.
-- Called by: advance_move_tasks.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible; for FIFO message_group_order.
create function skipmq.redrive_failure(p_source bigint, p_source_arn text) returns text
language sql volatile
as $$
  select case
    when bool_or(m.dead_letter_source is null) then 'CouldNotDetermineMessageSource'
    when bool_or(m.dead_letter_source <> p_source_arn) then 'AWS.SimpleQueueService.NonExistentQueue' end
  from (
    (select m.dead_letter_source
    from skipmq.message m
    where m.queue_id = p_source and m.shard = any (skipmq.shards(p_source)) and m.group_no is null
      and m.visible_at > '-infinity' and m.visible_at <= skipmq.clock()
    limit 1000)
    union all
    (select m.dead_letter_source
    from skipmq.message m
    where m.queue_id = p_source and m.group_no is not null and m.visible_at <= skipmq.clock()
    limit 1000)
  ) m
$$;
