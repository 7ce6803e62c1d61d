-- Does: keeps a queue from being purged or deleted until the transaction ends, so that what it sends is there when
--   it has committed.
-- Called by: hold_queue; send_messages and send_fifo_messages for SQL users: a transaction of a node is over in an
--   instant, and counts as before or after a purge.
-- Locks, in order: advisory lock of the generation, shared.
-- Raises: 40001 when the queue was purged or deleted since the transaction's snapshot was taken.
-- Relies on index: queue_id.
--
-- An advisory lock, since a lock of the row would write it at each send. A transaction with one snapshot for all
-- statements cannot see what happened before it had the lock: it locks the row besides, as a foreign key does.
create function skipmq.hold_generation(p_queue_id integer) returns void
language plpgsql volatile
as $$
begin
  perform pg_advisory_xact_lock_shared(hashtext('skipmq.queue'), p_queue_id);
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    perform from skipmq.queue q where q.queue_id = p_queue_id for key share;
  end if;
end $$;
