-- Does: checks that a generation is the current one of a queue, and that the queue is FIFO or not, as p_fifo says (null:
--   any); returns whether it is FIFO.
-- Called by: the functions that take a generation, when they find no row.
-- Locks, in order: none.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue has the other type.
-- Relies on index: queue_id.
create function skipmq.check_generation(p_queue_id bigint, p_fifo boolean default null) returns boolean
language plpgsql stable
as $$
declare
  v_fifo boolean;
begin
  select q.fifo into v_fifo from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'queue generation % does not exist', p_queue_id using errcode = 'SQ005';
  elsif v_fifo <> p_fifo then
    raise exception 'the queue is %', case when v_fifo then 'FIFO' else 'standard' end using errcode = 'SQ007';
  end if;
  return v_fifo;
end $$;
