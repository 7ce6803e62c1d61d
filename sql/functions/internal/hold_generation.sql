-- Does: prevents a queue from being purged or deleted until the transaction ends, so that a committed send is kept.
-- Called by: hold_queue; send_messages and send_fifo_messages for SQL users: a node's transactions are short, and count as
--   before or after a purge.
-- Locks, in order: advisory lock of the generation, shared.
-- Raises: 40001 when the queue was purged or deleted since the snapshot of a REPEATABLE READ or SERIALIZABLE transaction.
-- Relies on index: queue_id.
--
-- An advisory lock, since a row lock would write the row at each send. Under REPEATABLE READ and SERIALIZABLE the snapshot
-- may be older than the lock: there it also locks the row, as a foreign key does.
create function skipmq.hold_generation(p_queue_id bigint) returns void
language plpgsql volatile
as $$
begin
  perform pg_advisory_xact_lock_shared(hashtext('skipmq.queue'), (p_queue_id & 1023)::integer);
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    perform from skipmq.queue q where q.queue_id = p_queue_id for key share;
  end if;
end $$;
