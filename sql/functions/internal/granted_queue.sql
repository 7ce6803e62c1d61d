-- Does: checks that session_user may send to, or receive from, the named queue, and returns its current generation: for a
--   send held until the transaction ends.
-- Called by: the functions for applications.
-- Locks, in order: those of check_grant; for a send those of hold_queue.
-- Raises: what check_grant raises; SQ001 when the queue does not exist; for a send what hold_queue raises.
-- Relies on index: queue_pkey, and those of check_grant.
create function skipmq.granted_queue(p_right text, p_queue text, p_account text, p_region text) returns bigint
language plpgsql volatile
as $$
begin
  perform skipmq.check_grant(p_right, p_queue, p_account, p_region);
  if p_right = 'send' then
    return skipmq.hold_queue(p_queue, p_account, p_region);
  end if;
  return skipmq.queue_id(p_queue, p_account, p_region);
end $$;
