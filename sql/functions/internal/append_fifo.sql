-- Does: moves messages of a FIFO queue, whose groups the caller has locked, to the ends of their groups in
--   other FIFO queues, in the given order, and writes a history row for each. As 'dead-lettered' they keep their
--   receive count, record their source and take their message id as deduplication id, as on AWS; as 'redriven'
--   each becomes a new message, as in resend. Returns the number moved.
-- Called by: clear_group, move_fifo_batch, dead_letter_message.
-- Locks, in order: queue rows of the targets (key share, so that they are neither purged nor deleted), those of
--   hold_groups for the target groups, by target; message rows. As 'dead-lettered' it does not wait for an advisory lock, whose
--   holder may be waiting for a group that this receive has locked: it then moves nothing.
-- Raises: nothing.
-- Relies on index: queue_id, message_pkey, message_group_pkey.
create function skipmq.append_fifo(p_queue_id bigint, p_ids bigint[], p_targets bigint[], p_how text)
returns integer
language plpgsql volatile
as $$
declare
  v_source skipmq.queue;
  v_dead boolean := p_how = 'dead-lettered';
  v_now timestamptz;
  v_target bigint;
  v_count integer;
  v_failed bigint[];
begin
  select q.* into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  perform from (select distinct u.target from unnest(p_targets) u (target) order by 1) u
  cross join lateral (
    select from skipmq.queue q where q.queue_id = u.target for key share
  ) q;
  for v_target in select distinct u.target from unnest(p_targets) u (target) order by 1 loop
    if skipmq.hold_groups(
      v_target,
      array(
        select hashtextextended(m.group_id, v_target)
        from unnest(p_ids, p_targets) u (id, target)
        cross join lateral (select m.group_id from skipmq.message m where m.id = u.id and m.queue_id = p_queue_id) m
        where u.target = v_target),
      p_waits => not v_dead) <> '{}'
    then
      return 0;
    end if;
  end loop;
  v_now := skipmq.clock();
  perform skipmq.write_history(
    array(
      select m.tid
      from unnest(p_ids, p_targets) u (id, target)
      cross join lateral (
        select m.ctid as tid from skipmq.message m where m.id = u.id and m.queue_id = p_queue_id
      ) m
      where exists (select from skipmq.queue q where q.queue_id = u.target)),
    p_how, v_now);
  with numbered as materialized (
    select u.id, u.target, nextval('skipmq.sequence_number_seq') as sequence_number
    from (
      select u.id, u.target
      from unnest(p_ids, p_targets) with ordinality u (id, target, place)
      -- Messages whose target was deleted stay where they are.
      where exists (select from skipmq.queue q where q.queue_id = u.target)
      order by u.place
    ) u
  ), moved as (
    update skipmq.message m set
      id = case when v_dead then m.id else nextval('skipmq.message_id_seq') end,
      message_id = case when v_dead then m.message_id else gen_random_uuid() end,
      queue_id = n.target,
      group_no = hashtextextended(m.group_id, n.target),
      sequence_number = n.sequence_number,
      visible_at = v_now,
      sent_at = case when v_dead then m.sent_at else v_now end,
      enqueued_at = v_now,
      receive_count = case when v_dead then least(m.receive_count, 2147483645) + 1 else 0 end,
      receive_base = case when v_dead then least(m.receive_base, 2147483644) + 1 else 0 end,
      arrival_count = case when v_dead then m.receive_count - m.receive_base end,
      deduplication_id = case when v_dead then m.message_id::text else m.deduplication_id end,
      first_received_at = case when v_dead then m.first_received_at end,
      dead_letter_source = case when v_dead
        then format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name) end
    from numbered n
    where m.id = n.id and m.queue_id = p_queue_id
    returning m.*
  ), grouped as (
    insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
    select f.queue_id, f.group_no, v_now, f.first_number
    from (
      select m.queue_id, m.group_no, min(m.sequence_number) as first_number from moved m group by 1, 2
    ) f
    where current_setting('transaction_isolation') <> 'read committed' or not exists (
      select from skipmq.message_group g where g.queue_id = f.queue_id and g.group_no = f.group_no)
    on conflict do nothing
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event)
    select v_now, c.queue_id, sum(c.change), c.event
    from moved m
    cross join lateral (values (m.queue_id, 1, 'moved-in'), (p_queue_id, -1, p_how)) c (queue_id, change, event)
    group by c.queue_id, c.event
  )
  select count(*), array_agg(m.id) filter (where v_dead and strpos(m.attributes, '"FailureReason"') > 0)
  into v_count, v_failed
  from moved m;
  if v_failed is not null then
    perform skipmq.note_failure_kinds(p_targets[1], v_failed, v_now);
  end if;
  return v_count;
end $$;
