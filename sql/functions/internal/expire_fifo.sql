-- Does: settles up to p_limit messages of a FIFO queue that are past its retention period (enqueued by p_horizon) and not
--   in flight; returns their number.
-- Called by: expire_messages.
-- Locks, in order: group rows, skipping locked ones; message rows.
-- Raises: nothing.
-- Relies on index: message_enqueued, message_group_pkey, message_pkey.
create function skipmq.expire_fifo(p_queue_id bigint, p_horizon timestamptz, p_limit integer) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_ids bigint[];
  v_groups bigint[];
  v_tids tid[];
  v_count integer := 0;
begin
  select array_agg(m.id), array_agg(distinct m.group_no) into v_ids, v_groups
  from (
    select m.id, m.group_no
    from skipmq.message m
    where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at <= p_horizon
      and (m.visible_at <= v_now or m.receive_count = m.receive_base)
    order by m.enqueued_at
    limit p_limit
  ) m;
  if v_ids is null then
    return 0;
  end if;
  select array_agg(l.group_no) into v_groups
  from (select u.group_no from unnest(v_groups) u (group_no) order by u.group_no) u
  cross join lateral (
    select g.group_no
    from skipmq.message_group g
    where g.queue_id = p_queue_id and g.group_no = u.group_no
    for no key update skip locked
  ) l;
  select array_agg(m.tid) into v_tids
  from unnest(v_ids) u (id)
  cross join lateral (
    select m.ctid as tid
    from skipmq.message m
    where m.id = u.id and m.queue_id = p_queue_id and m.group_no = any (v_groups)
      and m.enqueued_at <= p_horizon and (m.visible_at <= v_now or m.receive_count = m.receive_base)
  ) m;
  if v_tids is not null then
    v_count := skipmq.settle(v_tids, 'expired');
  end if;
  perform skipmq.refresh_groups(p_queue_id, v_groups);
  return v_count;
end $$;
