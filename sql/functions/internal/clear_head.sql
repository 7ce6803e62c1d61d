-- Does: clears up to 1,000 messages that a receive skips from the head of a shard of a standard queue, of the first of
--   these kinds that it finds: moves those of noisy tenants to shard 1, settles those past retention, moves those
--   received p_most times to the dead-letter queue p_target (null: none). Returns the number cleared.
-- Called by: receive_messages, when its claim finds too few messages.
-- Locks, in order: those of deprioritise, expire_visible and move_to_dead_letter_queue.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.clear_head(
  p_queue_id bigint, p_shard smallint, p_from timestamptz, p_to timestamptz, p_horizon timestamptz,
  p_target bigint, p_most integer, p_noisy text[]
) returns integer
language plpgsql volatile
as $$
declare
  v_batch_size constant integer := 1000;
  v_count integer := 0;
begin
  if p_noisy <> '{}' then
    v_count := skipmq.deprioritise(p_queue_id, p_noisy, p_to, v_batch_size);
  end if;
  if v_count = 0 then
    v_count := skipmq.expire_visible(p_queue_id, p_shard, p_from, p_to, p_horizon, v_batch_size);
  end if;
  if v_count = 0 and p_target is not null then
    v_count := skipmq.move_to_dead_letter_queue(p_queue_id, p_shard, p_target, p_most, p_from, p_to, v_batch_size);
  end if;
  return v_count;
end $$;
