-- Does: stores messages in a standard queue: all of them, or none when it raises.
-- Called by: the SendMessage and SendMessageBatch actions, send_message; SQL users.
-- Locks, in order: those of hold_generation, for SQL users; with p_again the advisory lock of the first message id; queue
--   row, at the first message with a group, unless it is locked.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is FIFO; what check_messages raises.
-- Relies on index: queue_id, noisy_tenant_pkey, message_visible.
-- Routed: to the partition of p_queue_id.
--
-- The arrays are parallel, with one element for each message; a null array stands for nulls. A null delay is the queue's.
-- p_commit sets synchronous_commit for the rest of the transaction. Null, for SQL users, leaves it unchanged, prevents the
-- queue from being purged or deleted until the transaction ends, and checks the messages, as nodes do themselves.
-- p_again is zero for a send that may be retried, and for its retry the time within which the first attempt may have been
-- committed: nothing is stored when one of its messages is found. The retry waits for the advisory lock, which the first
-- attempt holds until standbys have acknowledged its commit: its messages are not visible earlier. Messages received and
-- deleted since are not found, and are stored again. Null takes no lock, so that a transaction may send any number.
create function skipmq.send_messages(
  p_queue_id bigint,
  p_message_ids uuid[],
  p_bodies text[],
  p_attributes text[],
  p_delays integer[],
  p_group_ids text[],
  p_trace_headers text[],
  p_sender text default null,
  p_commit text default null,
  p_again interval default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- The settings of sql/planner.sql that it needs: planning each call would cost more than the call.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_locked boolean;
  v_bytes bigint := 0;
begin
  -- Assignments, since PERFORM would run a statement.
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  else
    perform skipmq.hold_generation(p_queue_id);
    perform skipmq.check_generation(p_queue_id, false);
    p_attributes := skipmq.check_messages(
      p_queue_id, p_bodies, p_attributes, p_delays, p_group_ids, null, p_trace_headers);
  end if;
  if p_again = interval '0' then
    v_locked := pg_try_advisory_xact_lock(uuid_hash_extended(p_message_ids[1], 0));
  elsif p_again is not null and skipmq.is_sent(p_queue_id, p_message_ids, v_now - p_again) then
    -- A row, so that this commit waits for the standbys, for which the first attempt may not have waited.
    insert into skipmq.queue_delta (at, queue_id, change, event) values (v_now, p_queue_id, 0, 'sent');
    return;
  end if;
  -- A loop costs less than an aggregate, and copies no body.
  for n in 1 .. cardinality(p_bodies) loop
    v_bytes := v_bytes + octet_length(p_bodies[n]);
  end loop;
  with counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event, bytes)
    values (v_now, p_queue_id, cardinality(p_message_ids), 'sent', v_bytes)
  )
  insert into skipmq.message (
    id, visible_at, sent_at, enqueued_at, queue_id, shard, message_id, group_id, sender, trace_header, attributes, body)
  select
    nextval('skipmq.message_id_seq'),
    v_now + make_interval(secs => greatest(coalesce(u.delay, q.delay_seconds), 0)),
    v_now, case when u.delay > 900 then v_now + make_interval(secs => u.delay) else v_now end, p_queue_id,
    case when q.limited then skipmq.lane_of(q.priority_mode, u.attributes) else 0 end
      + case when q.tenants and u.group_id is not null and u.delay > 900 is not true
          then skipmq.shard_of(p_queue_id, u.group_id, v_now) * case when q.limited then 20 else 1 end else 0 end,
    u.message_id, u.group_id, p_sender, u.trace_header, u.attributes, u.body
  from skipmq.queue q
  cross join (
    select
      unnest(p_message_ids) as message_id, unnest(p_bodies) as body, unnest(p_attributes) as attributes,
      unnest(p_delays) as delay, unnest(p_group_ids) as group_id, unnest(p_trace_headers) as trace_header
  ) u
  where q.queue_id = p_queue_id and not q.fifo;
  if not found then
    perform skipmq.check_generation(p_queue_id, false);
    return;
  end if;
  if 900 < any (p_delays) then
    perform skipmq.count_delayed(
      array_fill(p_queue_id, array[cardinality(p_delays)]),
      array(select case when u.delay > 900 then v_now + make_interval(secs => u.delay) end from unnest(p_delays) u (delay)), 1,
      p_message_ids);
  end if;
  if p_group_ids is not null and array_remove(p_group_ids, null) <> '{}' then
    -- The next message with a group does so where another transaction holds the row.
    update skipmq.queue q set tenants = true
    from (
      select q.ctid as tid from skipmq.queue q where q.queue_id = p_queue_id and not q.tenants
      for no key update skip locked
    ) l
    where q.ctid = l.tid;
  end if;
end $$;
