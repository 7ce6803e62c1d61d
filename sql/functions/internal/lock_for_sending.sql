-- Does: takes the locks of the groups that messages are sent to, which exclude other senders and no receiver. With
--   p_requests, the request of each message, it does not wait: it returns the places of the messages of those requests
--   whose groups it could all lock; null when it locked all.
-- Called by: send_fifo_messages.
-- Locks, in order: those of hold_groups.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.lock_for_sending(p_queue_id bigint, p_group_ids text[], p_requests integer[]) returns bigint[]
language plpgsql volatile
as $$
declare
  v_held bigint[] := skipmq.hold_groups(
    p_queue_id,
    array(select hashtextextended(u.group_id, p_queue_id) from unnest(p_group_ids) u (group_id)),
    p_waits => p_requests is null);
begin
  if v_held = '{}' then
    return null;
  end if;
  return array(
    select u.place
    from unnest(p_requests) with ordinality u (request, place)
    where u.request not in (
      select h.request
      from unnest(p_requests, p_group_ids) h (request, group_id)
      where hashtextextended(h.group_id, p_queue_id) = any (v_held))
    order by u.place);
end $$;
