-- Does: stores messages in a standard queue, as send_messages does, but not those whose deduplication id the queue knows: one
--   that a message was sent with in the last DeduplicationSeconds. Returns for each, by its place in the arrays, its message
--   id: that of the first send when the deduplication id is known. A message without one is always stored.
-- Called by: the SendMessage and SendMessageBatch actions, send_message; SQL users.
-- Locks, in order: those of hold_generation, for SQL users; deduplication rows by key; those of send_messages.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is FIFO; SQ008 for an SQL user when the queue does not
--   deduplicate; what check_messages raises.
-- Relies on index: queue_id, deduplication_pkey, and those of send_messages.
-- Routed: to the partition of p_queue_id.
--
-- Safe to run again: a message id that is known already is that of an earlier try, which stored all. Nodes do: for them a
-- message without a deduplication id is known by its message id, for five minutes.
create function skipmq.send_unique_messages(
  p_queue_id bigint,
  p_message_ids uuid[],
  p_bodies text[],
  p_attributes text[],
  p_delays integer[],
  p_group_ids text[],
  p_trace_headers text[],
  p_sender text,
  p_deduplication_ids text[],
  p_commit text default null
) returns table (place bigint, message_id uuid)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- As send_fifo_messages: it joins a batch with itself.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_seconds integer;
  v_keys uuid[];
  v_new bigint[];
begin
  if p_commit is null then
    perform skipmq.hold_generation(p_queue_id);
  end if;
  select q.deduplication_seconds into v_seconds from skipmq.queue q where q.queue_id = p_queue_id and not q.fifo;
  if not found then
    perform skipmq.check_generation(p_queue_id, false);
  end if;
  if p_commit is null then
    p_attributes := skipmq.check_messages(
      p_queue_id, p_bodies, p_attributes, p_delays, p_group_ids, p_deduplication_ids, p_trace_headers);
    if v_seconds = 0 then
      raise exception 'Value % for parameter MessageDeduplicationId is invalid. Reason: The queue has no DeduplicationSeconds.',
        skipmq.shown(p_deduplication_ids[1]) using errcode = 'SQ008', hint = 'Set DeduplicationSeconds of the queue.';
    end if;
  end if;
  v_now := skipmq.clock();
  v_keys := array(
    select coalesce(
      encode(substr(sha256(convert_to(u.id, 'UTF8')), 1, 16), 'hex')::uuid,
      case when p_commit is not null then p_message_ids[u.place] end)
    from unnest(p_deduplication_ids) with ordinality u (id, place)
    order by u.place);
  with known as (
    insert into skipmq.deduplication as d (queue_id, key, expires_at, sequence_number, message_id)
    select
      p_queue_id, f.key,
      v_now + make_interval(secs => case when p_deduplication_ids[f.place] is null then 300 else v_seconds end), 0,
      p_message_ids[f.place]
    from (
      select min(u.place) as place, u.key
      from unnest(v_keys) with ordinality u (key, place)
      where u.key is not null and v_seconds > 0
      group by u.key
    ) f
    order by f.key
    on conflict on constraint deduplication_pkey do update set
      expires_at = excluded.expires_at, message_id = excluded.message_id
    where d.expires_at <= v_now
    returning d.message_id
  )
  select array_agg(u.place order by u.place) into v_new
  from unnest(p_message_ids, v_keys) with ordinality u (id, key, place)
  where u.key is null or v_seconds = 0 or u.id in (select k.message_id from known k);
  -- A statement of its own, so that it sees the row that another send has committed meanwhile.
  return query
  select u.place, coalesce(d.message_id, u.id)
  from unnest(p_message_ids, v_keys) with ordinality u (id, key, place)
  left join lateral (
    select d.message_id from skipmq.deduplication d
    where d.queue_id = p_queue_id and d.key = u.key and v_seconds > 0
    limit 1
  ) d on true
  order by u.place;
  if v_new is null or exists (
    -- An earlier try stored them, if this one did not.
    select from unnest(p_message_ids, v_keys) with ordinality u (id, key, place)
    join skipmq.deduplication d on d.queue_id = p_queue_id and d.key = u.key
    where d.message_id = u.id and u.place <> all (v_new))
  then
    -- A row, so that this commit waits for the standbys, for which the earlier send may not have waited.
    insert into skipmq.queue_delta (at, queue_id, change, event) values (v_now, p_queue_id, 0, 'sent');
    return;
  end if;
  perform skipmq.send_messages(
    p_queue_id,
    array(select p_message_ids[u.place] from unnest(v_new) u (place)),
    array(select p_bodies[u.place] from unnest(v_new) u (place)),
    array(select p_attributes[u.place] from unnest(v_new) u (place)),
    array(select p_delays[u.place] from unnest(v_new) u (place)),
    array(select p_group_ids[u.place] from unnest(v_new) u (place)),
    array(select p_trace_headers[u.place] from unnest(v_new) u (place)),
    p_sender, coalesce(p_commit, current_setting('synchronous_commit')));
end $$;
