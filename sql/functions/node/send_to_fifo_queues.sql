-- Does: stores messages in several FIFO queues, for each queue as send_fifo_messages does with p_requests: it does not wait, and
--   messages of a request with a group that another sender has locked are neither stored nor returned. Those of a queue whose
--   generation does not exist, or is that of a standard queue, are returned without a message id.
-- Called by: the SendMessage and SendMessageBatch actions, when requests for several queues or of several senders run together.
-- Locks, in order: those of hold_groups_of_queues; deduplication rows by queue and key.
-- Raises: nothing.
-- Relies on index: queue_id, deduplication_pkey, message_group_pkey.
-- Routed: not: nodes run it on the partition of the queues.
--
-- The arrays are parallel, with one element for each message; a null array stands for nulls. p_commit: see send_fifo_messages.
create function skipmq.send_to_fifo_queues(
  p_queue_ids bigint[], p_message_ids uuid[], p_bodies text[], p_attributes text[], p_group_ids text[],
  p_deduplication_ids text[], p_trace_headers text[], p_senders text[], p_commit text, p_requests integer[]
) returns table (place bigint, message_id uuid, sequence_number bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- As send_fifo_messages.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_groups bigint[];
  v_keys uuid[];
  v_known interval[]; -- For how long the keys are known.
  v_gone bigint[]; v_busy bigint[];
  v_left bigint[]; -- The places of messages that are not stored, nor duplicates.
  v_fresh bigint[]; v_numbers bigint[];
begin
  p_commit := set_config('synchronous_commit', p_commit, true);
  select array_agg(k.group_no order by k.place), array_agg(k.key order by k.place), array_agg(k.known order by k.place),
    array_agg(k.place) filter (where k.gone)
  into v_groups, v_keys, v_known, v_gone
  from (
    select
      u.place, q.queue_id is null as gone, make_interval(secs => greatest(q.deduplication_seconds, 300)) as known,
      case when q.queue_id is not null then hashtextextended(u.group_id, u.queue_id) end as group_no,
      encode(substr(sha256(convert_to(
        case when q.deduplication_scope = 'messageGroup' then u.group_id || E'\n' else '' end || u.deduplication_id,
        'UTF8')), 1, 16), 'hex')::uuid as key
    from unnest(p_queue_ids, p_group_ids, p_deduplication_ids) with ordinality u (queue_id, group_id, deduplication_id, place)
    left join skipmq.queue q on q.queue_id = u.queue_id and q.fifo
  ) k;
  v_busy := skipmq.hold_groups_of_queues(p_queue_ids, v_groups, p_few => false);
  v_left := coalesce(v_gone, '{}');
  if v_busy <> '{}' then
    v_left := v_left || array(
      select u.place from unnest(p_requests) with ordinality u (request, place)
      where u.request in (
        select h.request from unnest(p_requests, v_groups) h (request, group_no) where h.group_no = any (v_busy)));
  end if;

  -- Read after the locks, as in send_fifo_messages.
  v_now := greatest(v_now, skipmq.clock());
  with numbered as materialized (
    select f.place, f.queue_id, f.key, nextval('skipmq.sequence_number_seq') as sequence_number
    from (
      select min(u.place) as place, u.queue_id, u.key
      from unnest(p_queue_ids, v_keys) with ordinality u (queue_id, key, place)
      where u.place <> all (v_left)
      group by u.queue_id, u.key
      order by 1
    ) f
  ), inserted as (
    insert into skipmq.deduplication as d (queue_id, key, expires_at, sequence_number, message_id)
    select n.queue_id, n.key, v_now + v_known[n.place], n.sequence_number, p_message_ids[n.place]
    from numbered n
    order by n.queue_id, n.key
    on conflict on constraint deduplication_pkey do update set
      expires_at = excluded.expires_at,
      sequence_number = excluded.sequence_number,
      message_id = excluded.message_id
    where d.expires_at <= v_now
    returning d.sequence_number
  ), fresh as materialized (
    select n.place, n.queue_id, n.sequence_number, v_groups[n.place] as group_no
    from numbered n
    join inserted i on i.sequence_number = n.sequence_number
  ), stored as (
    insert into skipmq.message (
      id, visible_at, sent_at, enqueued_at, queue_id, group_no, sequence_number, message_id, group_id,
      deduplication_id, sender, trace_header, attributes, body)
    select
      nextval('skipmq.message_id_seq'), v_now, v_now, v_now, f.queue_id, f.group_no, f.sequence_number,
      p_message_ids[f.place], p_group_ids[f.place], p_deduplication_ids[f.place], p_senders[f.place],
      p_trace_headers[f.place], p_attributes[f.place], p_bodies[f.place]
    from fresh f
  ), grouped as (
    -- As in send_fifo_messages.
    insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
    select f.queue_id, f.group_no, v_now, f.first_number
    from (
      select f.queue_id, f.group_no, min(f.sequence_number) as first_number from fresh f group by f.queue_id, f.group_no
    ) f
    where current_setting('transaction_isolation') <> 'read committed' or not exists (
      select from skipmq.message_group g where g.queue_id = f.queue_id and g.group_no = f.group_no)
    order by f.first_number
    on conflict do nothing
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event, bytes)
    select v_now, f.queue_id, count(*), 'sent', sum(octet_length(p_bodies[f.place])) from fresh f group by f.queue_id
  )
  select coalesce(array_agg(f.place), '{}'), array_agg(f.sequence_number) into v_fresh, v_numbers from fresh f;

  return query
  select u.place, p_message_ids[u.place], u.number from unnest(v_fresh, v_numbers) u (place, number);
  if cardinality(v_fresh) = cardinality(p_queue_ids) then
    return;
  end if;
  return query
  select u.place, d.message_id, d.sequence_number
  from unnest(p_queue_ids, v_keys) with ordinality u (queue_id, key, place)
  -- A probe for each, even if the planner expects few rows.
  cross join lateral (
    select d.message_id, d.sequence_number
    from skipmq.deduplication d
    where d.queue_id = u.queue_id and d.key = u.key
    limit 1
  ) d
  where u.place <> all (v_fresh || v_left);
  return query select u.place, null::uuid, null::bigint from unnest(v_gone) u (place);
end $$;
