-- Does: gives the present generation of a queue, by name, and keeps it until the transaction ends: it is neither
--   purged nor deleted before.
-- Called by: send_message, send_fifo_message.
-- Locks, in order: those of hold_generation.
-- Raises: what queue_id and hold_generation raise.
-- Relies on index: queue_pkey, queue_id.
create function skipmq.hold_queue(p_name text, p_account text, p_region text) returns integer
language plpgsql volatile
as $$
declare
  v_id integer;
begin
  loop
    v_id := skipmq.queue_id(p_name, p_account, p_region);
    perform skipmq.hold_generation(v_id);
    -- It may have been purged while this one waited: then the name stands for another generation by now.
    exit when exists (select from skipmq.queue q where q.queue_id = v_id);
  end loop;
  return v_id;
end $$;
