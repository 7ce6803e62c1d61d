-- Does: returns how many of the p_first oldest messages of a queue were received at least p_receives times, and how often the
--   most received of them was; nothing where a damaged page keeps them from being read.
-- Called by: queue_statistics, queue_troubles.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_pkey; for FIFO message_enqueued.
create function skipmq.repeated_messages(
  p_queue_id bigint, p_fifo boolean, p_receives integer default 5, p_first integer default 100,
  out messages bigint, out receives integer
)
language plpgsql stable
as $$
begin
  select count(*), max(f.receives) into messages, receives
  from (
    (select m.receive_count - m.receive_base as receives
    from skipmq.message m
    where not p_fifo and m.queue_id = p_queue_id
    order by m.id
    limit p_first)
    union all
    (select m.receive_count - m.receive_base
    from skipmq.message m
    where p_fifo and m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > '-infinity'
    order by m.enqueued_at
    limit p_first)
  ) f
  where f.receives >= p_receives;
exception
  when data_corrupted or index_corrupted or io_error then
    messages := null;
end $$;
