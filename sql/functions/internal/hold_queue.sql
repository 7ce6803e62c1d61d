-- Does: returns the current generation of a queue, by name, and prevents it from being purged or deleted until the
--   transaction ends.
-- Called by: granted_queue.
-- Locks, in order: those of hold_generation.
-- Raises: what queue_id and hold_generation raise.
-- Relies on index: queue_pkey, queue_id.
create function skipmq.hold_queue(p_name text, p_account text, p_region text) returns bigint
language plpgsql volatile
as $$
declare
  v_id bigint;
begin
  loop
    v_id := skipmq.queue_id(p_name, p_account, p_region);
    perform skipmq.hold_generation(v_id);
    -- It may have been purged while this call waited for the lock: the name then has another generation.
    exit when exists (select from skipmq.queue q where q.queue_id = v_id);
  end loop;
  return v_id;
end $$;
