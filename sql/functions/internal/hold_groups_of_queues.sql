-- Does: excludes other senders from groups of several FIFO queues until the transaction ends, as hold_groups does for one queue
--   that does not wait; returns the groups that it does not hold. p_few: holds no more than some 500 groups in a transaction.
-- Called by: send_to_fifo_queues, refresh_groups_of_queues.
-- Locks, in order: those of hold_groups, none of which it waits for.
-- Raises: nothing.
-- Relies on index: none.
--
-- The arrays are parallel; a group that is null is left out.
create function skipmq.hold_groups_of_queues(p_queue_ids bigint[], p_groups bigint[], p_few boolean) returns bigint[]
language plpgsql volatile
as $$
declare
  v_class integer := hashtext('skipmq.fifo');
  v_held text := coalesce(nullif(current_setting('skipmq.held_groups', true), ''), ' ');
  v_new text;
  v_busy bigint[] := '{}';
  v_queue_id bigint;
begin
  if length(v_held) + 20 * cardinality(p_groups) > 10000 then
    for v_queue_id in select distinct u.queue_id from unnest(p_queue_ids) u (queue_id) order by 1 loop
      v_busy := v_busy || skipmq.hold_groups(v_queue_id, array(
        select u.group_no from unnest(p_queue_ids, p_groups) u (queue_id, group_no)
        where u.queue_id = v_queue_id and u.group_no is not null), case when not p_few then false end);
    end loop;
    return v_busy;
  end if;
  -- The lock of the queue is looked at before and after that of the group.
  select string_agg(g.group_no::text, ' ') filter (where g.is_held), array_agg(g.group_no) filter (where not g.is_held)
  into v_new, v_busy
  from (
    select u.group_no, case
      when not pg_try_advisory_lock_shared(v_class, u.queue) then false
      when not pg_advisory_unlock_shared(v_class, u.queue) then false
      when not pg_try_advisory_xact_lock(u.group_no) then false
      when not pg_try_advisory_lock_shared(v_class, u.queue) then false
      else pg_advisory_unlock_shared(v_class, u.queue) end as is_held
    from (
      select distinct (u.queue_id & 1023)::integer as queue, u.group_no
      from unnest(p_queue_ids, p_groups) u (queue_id, group_no)
      where u.group_no is not null and strpos(v_held, ' ' || u.group_no || ' ') = 0
    ) u
  ) g;
  if v_new is not null then
    v_held := set_config('skipmq.held_groups', concat(v_held, v_new, ' '), true);
  end if;
  return coalesce(v_busy, '{}');
end $$;
