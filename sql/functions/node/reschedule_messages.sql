-- Does: makes messages of a standard queue visible p_seconds from now, whatever their state is. An id of null stands for the delayed
--   message with that message id. Returns an outcome for each, by its place: changed, missing, or beyond-limit: more than the
--   queue's maximum delay, or for a message that was received more than 12 hours.
-- Called by: the ReleaseMessages action, reschedule_message; SQL users.
-- Locks, in order: message rows by id.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is FIFO.
-- Relies on index: queue_id, message_pkey, and those of delayed_ids.
-- Routed: to the partition of p_queue_id.
create function skipmq.reschedule_messages(p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_seconds integer)
returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_until timestamptz := v_now + make_interval(secs => greatest(p_seconds, 0));
  v_longest integer;
  v_ids bigint[] := p_ids;
  v_all bigint[]; v_changed bigint[];
  v_before timestamptz[]; -- When far ones were to be delivered.
  v_far uuid[];
begin
  perform skipmq.check_generation(p_queue_id, false);
  select q.maximum_delay_seconds into v_longest from skipmq.queue q where q.queue_id = p_queue_id;
  if array_position(p_ids, null) is not null then
    v_ids := array(
      select coalesce(u.id, u.delayed)
      from unnest(p_ids, skipmq.delayed_ids(p_queue_id, p_message_ids, v_now)) with ordinality u (id, delayed, place)
      order by u.place);
  end if;
  perform from (select distinct u.id from unnest(v_ids) u (id) order by u.id) u
  cross join lateral (select from skipmq.message m where m.queue_id = p_queue_id and m.id = u.id for no key update) l;
  -- A separate statement for the locks, so that the next one sees the current rows.
  with found as materialized (
    select m.ctid as tid, m.id, m.enqueued_at, m.receive_count = m.receive_base as fresh
    from unnest(v_ids, p_message_ids) u (id, message_id)
    join skipmq.message m on m.queue_id = p_queue_id and m.id = u.id and m.message_id = u.message_id
  ), changed as (
    update skipmq.message m set
      visible_at = v_until,
      -- The receipt of a receive that was returned does not match a message that is counted by the time of its delivery.
      receive_count = case when f.fresh and p_seconds > 900 then least(m.receive_count, 2147483645) + 1 else m.receive_count end,
      receive_base = case when f.fresh and p_seconds > 900 then least(m.receive_count, 2147483645) + 1 else m.receive_base end,
      -- As after a send with this delay: later than now for those that are counted by the time of their delivery.
      enqueued_at = case when f.fresh and p_seconds > 900 then v_until else least(f.enqueued_at, v_now) end,
      -- A shard, or lane, of messages never received; of received ones, which a dead-letter queue has among the others.
      shard = case
        when not f.fresh then case when m.shard >= 20 then m.shard when m.shard >= 10 then m.shard + 10 else 2 end
        when p_seconds <= 900 then m.shard when m.shard >= 20 then 10 + m.shard % 10 when m.shard < 10 then 0 else m.shard end
    from found f
    where m.ctid = f.tid and p_seconds <= case when f.fresh then greatest(v_longest, 43200) else 43200 end
    returning m.id, m.message_id, f.enqueued_at as before, f.fresh
  )
  select array(select f.id from found f), array_agg(c.id), array_agg(c.before) filter (where c.before > v_now),
    array_agg(c.message_id) filter (where c.fresh and p_seconds > 900)
  into v_all, v_changed, v_before, v_far
  from changed c;
  if v_before is not null then
    perform skipmq.count_delayed(array_fill(p_queue_id, array[cardinality(v_before)]), v_before, -1);
  end if;
  if v_far is not null then
    perform skipmq.count_delayed(
      array_fill(p_queue_id, array[cardinality(v_far)]), array_fill(v_until, array[cardinality(v_far)]), 1, v_far);
  end if;
  return query
  select u.place, case when u.id = any (v_changed) then 'changed' when u.id = any (v_all) then 'beyond-limit' else 'missing' end
  from unnest(v_ids) with ordinality u (id, place)
  order by u.place;
end $$;
