-- Does: deletes the given message rows, which the caller has locked, and writes a history row for each; returns their
--   number.
-- Called by: delete_fifo_messages, delete_picked_messages, advance_message_task, erase_messages, expire_visible,
--   clear_group, clear_retired, expire_fifo.
-- Locks, in order: none except the caller's.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), and those of write_history.
create function skipmq.settle(p_tids tid[], p_outcome text) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_count integer;
begin
  perform skipmq.write_history(p_tids, p_outcome, v_now);
  with gone as (
    delete from skipmq.message m where m.ctid = any (p_tids) returning m.queue_id
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event)
    select v_now, g.queue_id, -count(*), p_outcome from gone g group by g.queue_id
  )
  select count(*) into v_count from gone;
  return v_count;
end $$;
