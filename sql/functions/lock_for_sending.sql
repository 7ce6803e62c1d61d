-- Does: takes the locks of the groups that messages are sent to, which exclude other senders and no receiver. With
--   p_requests, the request of each message, it does not wait: it returns the places of the messages of those requests
--   whose groups it could all lock; null when it locked all.
-- Called by: send_fifo_messages.
-- Locks, in order: advisory locks of the groups, by number where it waits.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.lock_for_sending(p_queue_id bigint, p_group_ids text[], p_requests integer[]) returns bigint[]
language plpgsql volatile
as $$
declare
  v_held bigint[];
begin
  if p_requests is null then
    perform pg_advisory_xact_lock(g.group_no)
    from (
      select distinct hashtextextended(u.group_id, p_queue_id) as group_no
      from unnest(p_group_ids) u (group_id)
      order by group_no
    ) g;
    return null;
  end if;
  v_held := array(
    select g.group_no
    from (select distinct hashtextextended(u.group_id, p_queue_id) as group_no from unnest(p_group_ids) u (group_id)) g
    where not pg_try_advisory_xact_lock(g.group_no));
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
