-- Does: continues a task with a filter, whose row the caller has locked: examines up to p_limit messages after its place
--   and moves, copies or deletes up to p_allowed of those that match; returns the number processed, the number
--   examined, the new place and whether the task is finished.
-- Called by: advance_move_tasks.
-- Locks, in order: for FIFO group rows by number, message rows, skipping locked groups and messages; those of
--   move_messages, copy_messages and settle.
-- Raises: what move_messages and copy_messages raise.
-- Relies on index: message_pkey, and those of match_messages, move_messages, copy_messages and settle.
--
-- The place stops before the first locked message. A message that is received afterwards becomes visible later than
-- the task's start, outside its range. Changes and place are committed together, so that several nodes examine each
-- message once.
create function skipmq.advance_message_task(
  p_task skipmq.move_task, p_source bigint, p_target bigint, p_allowed integer, p_limit integer
) returns table (moved integer, passed integer, place_at timestamptz, place_number bigint, finished boolean)
language plpgsql volatile
as $$
#variable_conflict use_variable
declare
  v_fifo boolean := p_task.source_arn like '%.fifo';
  -- A search that the task continues came before it.
  v_until timestamptz := least(p_task.started_at, (p_task.filter ->> 'until')::timestamptz);
  v_groups bigint[];
  v_found record;
  v_free bigint[];
  v_held bigint[];
  v_taken bigint[];
  v_message_ids uuid[];
  v_full boolean := false;
begin
  moved := 0;
  passed := 0;
  place_at := coalesce(p_task.place_at, '-infinity');
  place_number := coalesce(p_task.place_number, -1);
  finished := false;
  while not v_full and passed < p_limit loop
    select array_agg(c.id) as ids, array_agg(c.at) as times, array_agg(c.number) as numbers,
      coalesce(array_agg(c.id) filter (where c.matches and c.free), '{}') as matching
    into v_found
    from skipmq.match_messages(
      p_source, place_at, place_number, v_until, p_task.body_contains, p_task.attribute_name,
      p_task.attribute_value, least(100, p_limit - passed), p_task.filter) c;
    if v_found.ids is null then
      finished := true;
      exit;
    end if;
    if v_fifo then
      v_groups := coalesce(skipmq.lock_groups(p_source, v_found.matching, false), '{}');
    end if;
    v_free := array(
      select m.id
      from skipmq.message m
      where m.id = any (v_found.matching) and m.queue_id = p_source and case
        when v_fifo then m.group_no = any (v_groups) and (m.visible_at <= skipmq.clock() or m.receive_count = m.receive_base)
        else m.visible_at <= v_until end
      for no key update skip locked);
    -- A separate statement: messages that another transaction has changed and committed no longer match.
    v_held := array(
      select m.id
      from skipmq.message m
      where m.id = any (v_found.matching) and m.id <> all (v_free) and m.queue_id = p_source and case
        when v_fifo then m.group_no <> all (v_groups)
        else m.visible_at <= v_until end);
    v_taken := '{}';
    for v_n in 1 .. cardinality(v_found.ids) loop
      exit when v_found.ids[v_n] = any (v_held);
      if v_found.ids[v_n] = any (v_free) then
        v_full := moved + cardinality(v_taken) >= p_allowed;
        exit when v_full;
        v_taken := v_taken || v_found.ids[v_n];
      end if;
      place_at := v_found.times[v_n];
      place_number := v_found.numbers[v_n];
      passed := passed + 1;
    end loop;
    moved := moved + cardinality(v_taken);
    if v_taken = '{}' then
      null;
    elsif p_task.kind in ('move', 'copy') then
      v_message_ids := array(
        select m.message_id
        from unnest(v_taken) with ordinality u (id, place)
        join skipmq.message m on m.queue_id = p_source and m.id = u.id
        order by u.place);
      if p_task.kind = 'move' then
        perform skipmq.move_messages(p_source, v_taken, v_message_ids, p_target);
      else
        perform skipmq.copy_messages(p_source, v_taken, v_message_ids, p_target);
      end if;
    else
      perform skipmq.settle(array(select m.ctid from skipmq.message m where m.queue_id = p_source and m.id = any (v_taken)), 'deleted');
      if v_fifo then
        perform skipmq.refresh_groups(p_source, v_groups);
      end if;
    end if;
    v_full := v_full or v_held <> '{}';
  end loop;
  -- Finishes in this call where p_limit ended the loop at the last message.
  finished := finished or not v_full and not exists (
    select from skipmq.match_messages(
      p_source, place_at, place_number, v_until, p_task.body_contains, p_task.attribute_name,
      p_task.attribute_value, 1, p_task.filter));
  return next;
end $$;
