-- Does: returns what count_messages returns; where a damaged page keeps it from being read, all p_messages as visible.
-- Called by: queue_statistics, queue_troubles: the damage of one queue hides no other.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: those of count_messages.
create function skipmq.try_count_messages(
  p_queue_id bigint, p_messages bigint, out visible bigint, out in_flight bigint, out delayed bigint
)
language plpgsql stable
as $$
begin
  select n.visible, n.in_flight, n.delayed into visible, in_flight, delayed
  from skipmq.count_messages(p_queue_id) n;
exception
  when data_corrupted or index_corrupted or io_error then
    visible := p_messages;
    in_flight := 0;
    delayed := 0;
end $$;
