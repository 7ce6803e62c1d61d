-- Does: deletes messages of several FIFO queues, for each queue as delete_fifo_messages does where it does not wait. The outcome
--   for a message whose queue's generation does not exist, or is that of a standard queue, is moved.
-- Called by: the DeleteMessage and DeleteMessageBatch actions, when requests for several queues run together.
-- Locks, in order: group rows in any order, skipping locked ones; message rows.
-- Raises: nothing.
-- Relies on index: message_pkey, queue_id, message_group_pkey, and those of dead_letter_queue, settle and refresh_groups_of_queues.
-- Routed: not: nodes run it on the partition of the queues.
create function skipmq.delete_from_fifo_queues(
  p_queue_ids bigint[], p_ids bigint[], p_receive_counts integer[], p_message_ids uuid[], p_commit text
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_queues bigint[];
  v_groups bigint[];
  v_outcomes text[];
  v_tids tid[];
begin
  p_commit := set_config('synchronous_commit', p_commit, true);
  select array_agg(l.queue_id), array_agg(l.group_no) into v_queues, v_groups
  from (
    select distinct u.queue_id, m.group_no
    from unnest(p_queue_ids, p_ids) u (queue_id, id)
    cross join lateral (select m.group_no from skipmq.message m where m.id = u.id and m.queue_id = u.queue_id) m
  ) u
  cross join lateral (
    select g.queue_id, g.group_no
    from skipmq.message_group g
    where g.queue_id = u.queue_id and g.group_no = u.group_no
    for no key update skip locked
  ) l;
  -- A separate statement, which sees what was committed before the locks were taken.
  select array_agg(f.outcome order by f.place), array_agg(f.tid) filter (where f.outcome = 'deleted')
  into v_outcomes, v_tids
  from (
    select u.place, m.tid, case
      when not exists (select from skipmq.queue q where q.queue_id = u.queue_id and q.fifo) then 'moved'
      when m.found and m.group_no = any (v_groups) is not true then 'held'
      when m.receive_count = u.receive_count and m.visible_at > v_now then 'deleted'
      when m.found or exists (
        select from skipmq.message d
        where d.queue_id = skipmq.dead_letter_queue(u.queue_id) and d.id = u.id and d.message_id = u.message_id
      ) then 'expired'
      else 'missing'
    end as outcome
    from unnest(p_queue_ids, p_ids, p_receive_counts, p_message_ids) with ordinality
      u (queue_id, id, receive_count, message_id, place)
    left join lateral (
      select true as found, m.ctid as tid, m.group_no, m.receive_count, m.visible_at
      from skipmq.message m
      where m.queue_id = u.queue_id and m.id = u.id and m.message_id = u.message_id
    ) m on true
  ) f;
  if v_tids is not null then
    -- No other transaction changes these rows: it would lock their groups before.
    perform skipmq.settle(v_tids, 'deleted');
  end if;
  if v_groups is not null then
    perform skipmq.refresh_groups_of_queues(v_queues, v_groups);
  end if;
  return query select u.place, u.outcome from unnest(v_outcomes) with ordinality u (outcome, place);
end $$;
