-- Does: returns what oldest_message returns, null where a damaged page keeps it from being read.
-- Called by: queue_statistics, queue_troubles, dead_letter_queues: the damage of one queue hides no other.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: those of oldest_message.
create function skipmq.try_oldest_message(p_queue_id bigint, p_fifo boolean) returns float8
language plpgsql stable
as $$
begin
  return skipmq.oldest_message(p_queue_id, p_fifo);
exception
  when data_corrupted or index_corrupted or io_error then
    return null;
end $$;
