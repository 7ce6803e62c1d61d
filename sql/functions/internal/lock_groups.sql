-- Does: locks the groups of the given messages of a FIFO queue; returns the numbers of the groups locked, without those
--   deleted meanwhile and, where p_waits is false, without those that another transaction has locked.
-- Called by: delete_fifo_messages, change_fifo_visibility, receive_fifo_attempt, return_fifo_messages, return_message,
--   dead_letter_message, move_messages, record_failure,
--   delete_picked_messages, advance_message_task, erase_messages.
-- Locks, in order: group rows by number.
-- Raises: nothing.
-- Relies on index: message_pkey, message_group_pkey.
create function skipmq.lock_groups(p_queue_id bigint, p_ids bigint[], p_waits boolean default true) returns bigint[]
language plpgsql volatile
as $$
declare
  v_groups bigint[];
begin
  if p_waits then
    select array_agg(l.group_no) into v_groups
    from (
      select distinct m.group_no
      from unnest(p_ids) u (id)
      cross join lateral (
        select m.group_no from skipmq.message m where m.id = u.id and m.queue_id = p_queue_id
      ) m
      order by m.group_no
    ) u
    cross join lateral (
      select g.group_no
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.group_no = u.group_no
      for no key update
    ) l;
  else
    select array_agg(l.group_no) into v_groups
    from (
      select distinct m.group_no
      from unnest(p_ids) u (id)
      cross join lateral (
        select m.group_no from skipmq.message m where m.id = u.id and m.queue_id = p_queue_id
      ) m
    ) u
    cross join lateral (
      select g.group_no
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.group_no = u.group_no
      for no key update skip locked
    ) l;
  end if;
  return v_groups;
end $$;
