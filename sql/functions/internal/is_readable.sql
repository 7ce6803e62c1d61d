-- Does: returns whether the first entry of a shard of a standard queue from p_from to p_to can be read, or there is none;
--   false where a damaged page prevents it.
-- Called by: readable_from.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.is_readable(p_queue_id bigint, p_shard smallint, p_from timestamptz, p_to timestamptz)
returns boolean
language plpgsql volatile
as $$
begin
  perform from skipmq.message m
  where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
    and m.visible_at >= p_from and m.visible_at <= p_to
  order by m.visible_at limit 1;
  return true;
exception
  when data_corrupted or index_corrupted or io_error then
    return false;
end $$;
