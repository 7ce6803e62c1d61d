-- Does: does the same as change_visibility for a FIFO queue; a group becomes available with its first message. Where
--   p_waits is false, a message whose group another transaction has locked stays unchanged, with the outcome held.
-- Called by: the ChangeMessageVisibility and ChangeMessageVisibilityBatch actions; SQL users.
-- Locks, in order: those of hold_limits; group rows by number, message rows by id.
-- Raises: what change_visibility raises.
-- Relies on index: those of lock_groups, change_visibility and refresh_groups.
-- Routed: to the partition of p_queue_id.
create function skipmq.change_fifo_visibility(
  p_queue_id bigint,
  p_ids bigint[],
  p_receive_counts integer[],
  p_message_ids uuid[],
  p_received_at timestamptz[],
  p_timeouts integer[],
  p_commit text default null,
  p_waits boolean default true
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_groups bigint[];
  v_held bigint[];
begin
  if not skipmq.hold_limits(p_queue_id, p_waits) then
    return query select u.place, 'held' from unnest(p_ids) with ordinality u (id, place);
    return;
  end if;
  v_groups := skipmq.lock_groups(p_queue_id, p_ids, p_waits);
  if not p_waits then
    v_held := array(
      select m.id
      from unnest(p_ids) u (id)
      cross join lateral (
        select m.id
        from skipmq.message m
        where m.id = u.id and m.queue_id = p_queue_id and m.group_no = any (v_groups) is not true
      ) m);
  end if;
  return query
  select c.place, case when p_ids[c.place] = any (v_held) then 'held' else c.outcome end
  from skipmq.change_visibility(
    p_queue_id,
    case when v_held <> '{}' then array(
      select case when u.id = any (v_held) is not true then u.id end
      from unnest(p_ids) with ordinality u (id, place)
      order by u.place)
    else p_ids end,
    p_receive_counts, p_message_ids, p_received_at, p_timeouts, p_commit) c;
  perform skipmq.refresh_groups(p_queue_id, v_groups);
end $$;
