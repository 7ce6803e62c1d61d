-- Does: stores messages in several standard queues, for each queue as send_messages does; returns the queues for which it stored
--   nothing, since their generation does not exist or is that of a FIFO queue.
-- Called by: the SendMessage and SendMessageBatch actions, when requests for several queues or of several senders run together.
-- Locks, in order: with p_again the advisory lock of the first message id; queue rows, at the first message with a group,
--   skipping locked ones.
-- Raises: nothing.
-- Relies on index: queue_id, noisy_tenant_pkey, message_visible.
-- Routed: not: nodes run it on the partition of the queues.
--
-- The arrays are parallel, with one element for each message; a null array stands for nulls. p_commit and p_again: see
-- send_messages. All are stored in one transaction, so that a retry that finds one message of a queue stores nothing.
create function skipmq.send_to_queues(
  p_queue_ids bigint[],
  p_message_ids uuid[],
  p_bodies text[],
  p_attributes text[],
  p_delays integer[],
  p_group_ids text[],
  p_trace_headers text[],
  p_senders text[],
  p_commit text,
  p_again interval
) returns bigint[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- The settings of sql/planner.sql that it needs: planning each call would cost more than the call.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_locked boolean;
  v_stored integer;
begin
  p_commit := set_config('synchronous_commit', p_commit, true);
  if p_again = interval '0' then
    v_locked := pg_try_advisory_xact_lock(uuid_hash_extended(p_message_ids[1], 0));
  elsif p_again is not null and exists (
    select from (select distinct u.queue_id from unnest(p_queue_ids) u (queue_id)) q
    where skipmq.is_sent(q.queue_id, p_message_ids, v_now - p_again)
  ) then
    -- A row, so that this commit waits for the standbys, for which the first attempt may not have waited.
    insert into skipmq.queue_delta (at, queue_id, change, event) values (v_now, p_queue_ids[1], 0, 'sent');
    v_stored := -1;
  end if;
  if v_stored is null then
    with stored as (
      insert into skipmq.message (
        id, visible_at, sent_at, enqueued_at, queue_id, shard, message_id, group_id, sender, trace_header, attributes, body)
      select
        nextval('skipmq.message_id_seq'),
        v_now + make_interval(secs => greatest(coalesce(u.delay, q.delay_seconds), 0)),
        v_now, case when u.delay > 900 then v_now + make_interval(secs => u.delay) else v_now end, q.queue_id,
        case when q.limited then skipmq.lane_of(q.priority_mode, u.attributes) else 0 end
      + case when q.tenants and u.group_id is not null and u.delay > 900 is not true
          then skipmq.shard_of(q.queue_id, u.group_id, v_now) * case when q.limited then 20 else 1 end else 0 end,
        u.message_id, u.group_id, u.sender, u.trace_header, u.attributes, u.body
      from (
        select
          unnest(p_queue_ids) as queue_id, unnest(p_message_ids) as message_id, unnest(p_bodies) as body,
          unnest(p_attributes) as attributes, unnest(p_delays) as delay, unnest(p_group_ids) as group_id,
          unnest(p_trace_headers) as trace_header, unnest(p_senders) as sender
      ) u
      join skipmq.queue q on q.queue_id = u.queue_id and not q.fifo
      returning queue_id, octet_length(body) as bytes
    ), counted as (
      insert into skipmq.queue_delta (at, queue_id, change, event, bytes)
      select v_now, s.queue_id, count(*), 'sent', sum(s.bytes) from stored s group by s.queue_id
    )
    select count(*) into v_stored from stored;
    if v_stored > 0 and 900 < any (p_delays) then
      perform skipmq.count_delayed(p_queue_ids, array(
        select case when u.delay > 900 then v_now + make_interval(secs => u.delay) end from unnest(p_delays) u (delay)), 1,
        p_message_ids);
    end if;
    if v_stored > 0 and p_group_ids is not null and array_remove(p_group_ids, null) <> '{}' then
      update skipmq.queue q set tenants = true
      from (
        select q.ctid as tid
        from skipmq.queue q
        where not q.tenants and not q.fifo and q.queue_id in (
          select u.queue_id from unnest(p_queue_ids, p_group_ids) u (queue_id, group_id) where u.group_id is not null)
        -- The next message with a group does so where another transaction holds the row.
        for no key update skip locked
      ) l
      where q.ctid = l.tid;
    end if;
  end if;
  if v_stored = cardinality(p_queue_ids) then
    return '{}';
  end if;
  return array(
    select distinct u.queue_id from unnest(p_queue_ids) u (queue_id)
    where not exists (select from skipmq.queue q where q.queue_id = u.queue_id and not q.fifo));
end $$;
