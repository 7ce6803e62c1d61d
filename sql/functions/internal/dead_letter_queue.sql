-- Does: returns the current generation of a queue's dead-letter queue; null when it has none, when that was deleted, or
--   when it is the queue itself.
-- Called by: receive_messages, claim_fifo_messages, dead_letter_message, delete_fifo_messages,
--   delete_from_fifo_queues.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, queue_pkey.
create function skipmq.dead_letter_queue(p_queue_id bigint) returns bigint
language plpgsql stable
as $$
begin
  return (
    select d.queue_id
    from skipmq.queue q
    join skipmq.queue d on d.account = q.dead_letter_account and d.region = q.region and d.name = q.dead_letter_name
    where q.queue_id = p_queue_id and d.queue_id <> p_queue_id);
end $$;
