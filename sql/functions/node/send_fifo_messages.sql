-- Does: stores messages in a FIFO queue; returns for each, by its place in the arrays, its message id and sequence number:
--   those of the first send when the deduplication id is known. Stores all or none, unless p_requests has the request of
--   each: then it does not wait, and messages of a request with a group that another sender has locked are neither
--   stored nor returned.
-- Called by: the SendMessage and SendMessageBatch actions, send_fifo_message; SQL users.
-- Locks, in order: those of hold_generation, for SQL users; those of lock_for_sending; deduplication rows by key.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is not FIFO; what check_messages raises.
-- Relies on index: queue_id, deduplication_pkey, message_group_pkey.
-- Routed: to the partition of p_queue_id.
--
-- The locks are taken before the sequence numbers and held until the commit, so that the messages of a group become
-- visible in the order of their numbers. p_commit sets synchronous_commit for the rest of the transaction. Null, for SQL
-- users, leaves it unchanged, holds the queue until the transaction ends, checks the messages, and adds content-based ids.
create function skipmq.send_fifo_messages(
  p_queue_id bigint,
  p_message_ids uuid[],
  p_bodies text[],
  p_attributes text[],
  p_group_ids text[],
  p_deduplication_ids text[],
  p_trace_headers text[],
  p_sender text default null,
  p_commit text default null,
  p_requests integer[] default null
) returns table (place bigint, message_id uuid, sequence_number bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- Not the settings of sql/planner.sql: it sorts, and joins a batch with itself.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_scope text;
  v_known interval;
  v_keys uuid[];
  v_fresh bigint[]; v_numbers bigint[];
  v_places bigint[];
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  else
    perform skipmq.hold_generation(p_queue_id);
  end if;
  select q.deduplication_scope, make_interval(secs => greatest(q.deduplication_seconds, 300))
  into v_scope, v_known from skipmq.queue q where q.queue_id = p_queue_id and q.fifo;
  if not found then
    perform skipmq.check_generation(p_queue_id, true);
  end if;
  if p_commit is null then
    p_deduplication_ids := skipmq.deduplication_ids(p_queue_id, p_deduplication_ids, p_bodies);
    p_attributes := skipmq.check_messages(
      p_queue_id, p_bodies, p_attributes, null, p_group_ids, p_deduplication_ids, p_trace_headers);
  end if;
  v_places := skipmq.lock_for_sending(p_queue_id, p_group_ids, p_requests);
  if v_places = '{}' then
    return;
  elsif v_places is not null then
    p_message_ids := array(select p_message_ids[u.place] from unnest(v_places) u (place));
    p_bodies := array(select p_bodies[u.place] from unnest(v_places) u (place));
    p_attributes := array(select p_attributes[u.place] from unnest(v_places) u (place));
    p_group_ids := array(select p_group_ids[u.place] from unnest(v_places) u (place));
    p_deduplication_ids := array(select p_deduplication_ids[u.place] from unnest(v_places) u (place));
    p_trace_headers := array(select p_trace_headers[u.place] from unnest(v_places) u (place));
  end if;

  -- Read again: it may have waited long for the locks.
  v_now := greatest(v_now, skipmq.clock());
  select array_agg(k.key order by k.place) into v_keys
  from (
    select
      encode(substr(sha256(convert_to(
        case when v_scope = 'messageGroup' then u.group_id || E'\n' else '' end || u.deduplication_id, 'UTF8')), 1, 16),
        'hex')::uuid as key,
      u.place
    from unnest(p_group_ids, p_deduplication_ids) with ordinality u (group_id, deduplication_id, place)
  ) k;
  with numbered as materialized (
    select f.place, f.key, nextval('skipmq.sequence_number_seq') as sequence_number
    from (
      select min(u.place) as place, u.key
      from unnest(v_keys) with ordinality u (key, place)
      group by u.key
      order by 1
    ) f
  ), fresh as (
    insert into skipmq.deduplication as d (queue_id, key, expires_at, sequence_number, message_id)
    select p_queue_id, n.key, v_now + v_known, n.sequence_number, p_message_ids[n.place]
    from numbered n
    order by n.key
    on conflict on constraint deduplication_pkey do update set
      expires_at = excluded.expires_at,
      sequence_number = excluded.sequence_number,
      message_id = excluded.message_id
    where d.expires_at <= v_now
    returning d.sequence_number
  )
  select array_agg(n.place), array_agg(n.sequence_number) into v_fresh, v_numbers
  from numbered n
  join fresh f on f.sequence_number = n.sequence_number;

  if v_fresh is not null then
    insert into skipmq.message (
      id, visible_at, sent_at, enqueued_at, queue_id, group_no, sequence_number, message_id, group_id,
      deduplication_id, sender, trace_header, attributes, body)
    select
      nextval('skipmq.message_id_seq'), v_now, v_now, v_now, p_queue_id,
      hashtextextended(p_group_ids[u.place], p_queue_id), u.number, p_message_ids[u.place],
      p_group_ids[u.place], p_deduplication_ids[u.place], p_sender, p_trace_headers[u.place],
      p_attributes[u.place], p_bodies[u.place]
    from unnest(v_fresh, v_numbers) u (place, number);
    -- No transaction deletes a group's row while its advisory lock is held, so that a read is enough under READ COMMITTED.
    -- An insert with on conflict would wait for a receiver of the group.
    insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
    select p_queue_id, f.group_no, v_now, f.first_number
    from (
      select hashtextextended(p_group_ids[u.place], p_queue_id) as group_no, min(u.number) as first_number
      from unnest(v_fresh, v_numbers) u (place, number)
      group by 1
    ) f
    where current_setting('transaction_isolation') <> 'read committed' or not exists (
      select from skipmq.message_group g where g.queue_id = p_queue_id and g.group_no = f.group_no)
    order by f.first_number -- Groups that become available together are claimed in the order of arrival.
    on conflict do nothing;
    insert into skipmq.queue_delta (at, queue_id, change, event, bytes)
    select v_now, p_queue_id, cardinality(v_fresh), 'sent', coalesce(sum(octet_length(b.body)), 0)
    from unnest(p_bodies) with ordinality b (body, place) where b.place = any (v_fresh);
  end if;

  if cardinality(v_fresh) = cardinality(v_keys) then
    return query
    select coalesce(v_places[u.place], u.place), p_message_ids[u.place], u.number
    from unnest(v_fresh, v_numbers) u (place, number)
    order by u.place;
    return;
  end if;
  return query
  select coalesce(v_places[u.place], u.place), d.message_id, d.sequence_number
  from unnest(v_keys) with ordinality u (key, place)
  -- A probe for each, even if the planner expects few rows.
  cross join lateral (
    select d.message_id, d.sequence_number
    from skipmq.deduplication d
    where d.queue_id = p_queue_id and d.key = u.key
    limit 1
  ) d
  order by u.place;
end $$;
