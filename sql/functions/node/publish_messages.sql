-- Does: publishes messages to a topic: stores each in all queues, and for all addresses, that are subscribed and whose filter
--   policy matches, or none when it raises. What a queue cannot take goes to the dead-letter queue of its subscription, or is
--   dropped. Returns for each message its id and sequence number, those of the first where a FIFO topic knows the
--   deduplication id; the queues that got it, and how many got none.
-- Called by: the Publish and PublishBatch actions; publish.
-- Locks, in order: those of hold_groups for the topic, deduplication rows by key, those of send_to_queues and of
--   send_fifo_messages, by queue; subscription rows of addresses (key share).
-- Raises: SQ014 when the topic does not exist, SQ015 when the policy of a queue is to be read first.
-- Relies on index: topic_pkey, subscription_pkey, queue_pkey, deduplication_pkey.
-- Routed: to the partition of p_topic_id.
--
-- The arrays are parallel; a null array stands for nulls. p_message_bytes has the sizes with attributes. p_commit: see
-- send_messages; null, for SQL users, prevents queues from being purged or deleted until the transaction ends. p_texts has, as
-- JSON objects, the texts that protocols get instead of p_messages.
create function skipmq.publish_messages(
  p_topic_id bigint, p_message_ids uuid[], p_messages text[], p_subjects text[], p_attributes text[],
  p_message_bytes integer[], p_group_ids text[], p_deduplication_ids text[], p_trace_headers text[], p_sender text,
  p_commit text, p_texts text[] default null
) returns table (
  place integer, message_id uuid, sequence_number bigint, queue_ids bigint[], queues text[], dead_lettered integer,
  dropped integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.write_time();
  v_commit text := set_config('synchronous_commit', coalesce(p_commit, current_setting('synchronous_commit')), true);
  v_topic skipmq.topic;
  v_fifo boolean;
  v_text record;
  v_by_attributes jsonb; v_by_body jsonb;
  v_filters_attributes boolean; v_filters_body boolean;
  v_after uuid; v_page integer; v_count integer;
  v_ids bigint[]; v_fifos bigint[]; v_keys uuid[]; v_bodies text[]; v_attributes text[];
  v_fifo_keys uuid[]; v_fifo_bodies text[]; v_fifo_attributes text[];
  v_http uuid[]; v_http_keys uuid[]; v_http_bodies text[]; v_http_attributes text[];
  v_groups text[]; v_names text[];
  v_unread boolean; v_dead integer; v_none integer;
begin
  select t.* into v_topic from skipmq.topic t where t.topic_id = p_topic_id;
  if not found then
    raise exception 'Topic does not exist' using errcode = 'SQ014';
  end if;
  v_fifo := v_topic.name like '%.fifo';
  if v_fifo then
    perform skipmq.hold_groups(
      p_topic_id, array(select hashtextextended(g, p_topic_id) from unnest(p_group_ids) g), p_waits => true);
    v_now := greatest(v_now, skipmq.clock());
  end if;
  select bool_or(not s.filters_body), bool_or(s.filters_body) into v_filters_attributes, v_filters_body
  from skipmq.subscription s where s.topic_id = p_topic_id and s.filter is not null;

  for n in 1 .. cardinality(p_message_ids) loop
    place := n;
    message_id := p_message_ids[n];
    sequence_number := null;
    queue_ids := '{}'; queues := '{}'; dead_lettered := 0; dropped := 0;
    if v_fifo then
      insert into skipmq.deduplication as d (queue_id, key, expires_at, sequence_number, message_id)
      values (
        p_topic_id,
        encode(substr(sha256(convert_to(case when v_topic.attributes ->> 'FifoThroughputScope' = 'MessageGroup'
          then p_group_ids[n] || E'\n' else '' end || p_deduplication_ids[n], 'UTF8')), 1, 16), 'hex')::uuid,
        v_now + interval '5 minutes', nextval('skipmq.sequence_number_seq'), p_message_ids[n])
      on conflict on constraint deduplication_pkey do update set
        -- A duplicate keeps its row, which the update locks.
        expires_at = case when d.expires_at <= v_now then excluded.expires_at else d.expires_at end,
        sequence_number = case when d.expires_at <= v_now then excluded.sequence_number else d.sequence_number end,
        message_id = case when d.expires_at <= v_now then excluded.message_id else d.message_id end
      returning d.message_id, d.sequence_number into message_id, sequence_number;
      if message_id <> p_message_ids[n] then
        return next;
        continue;
      end if;
    end if;
    select * into v_text from skipmq.notification(
      format('arn:aws:sns:%s:%s:%s', v_topic.region, v_topic.account, v_topic.name), message_id, sequence_number, p_subjects[n],
      p_messages[n], p_attributes[n], v_now, coalesce(v_topic.attributes ->> 'SignatureVersion', '1'), p_texts[n]::jsonb);
    if v_filters_attributes then
      v_by_attributes := skipmq.filter_document(null, p_attributes[n]);
    end if;
    if v_filters_body then
      v_by_body := skipmq.filter_document(p_messages[n], null);
    end if;
    -- Pages of some 8 MB.
    v_page := greatest(8000000 / greatest(p_message_bytes[n], 1000), 10);
    v_after := '00000000-0000-0000-0000-000000000000';
    loop
      select
        count(*), max(t.subscription_id::text)::uuid, bool_or(t.unread),
        count(*) filter (where not t.ok and t.target is not null), count(*) filter (where t.target is null and not t.http),
        array_agg(t.target) filter (where t.target is not null and not t.fifo),
        array_agg(t.key) filter (where t.target is not null and not t.fifo),
        array_agg(t.body) filter (where t.target is not null and not t.fifo),
        array_agg(t.attributes) filter (where t.target is not null and not t.fifo),
        array_agg(t.target order by t.target) filter (where t.fifo),
        array_agg(t.key order by t.target) filter (where t.fifo),
        array_agg(t.body order by t.target) filter (where t.fifo),
        array_agg(t.attributes order by t.target) filter (where t.fifo),
        array_agg(t.subscription_id) filter (where t.http), array_agg(t.key) filter (where t.http),
        array_agg(t.body) filter (where t.http), array_agg(t.attributes) filter (where t.http),
        array_agg(t.arn order by t.fifo, t.target) filter (where t.target is not null)
      into
        v_count, v_after, v_unread, v_dead, v_none, v_ids, v_keys, v_bodies, v_attributes, v_fifos, v_fifo_keys,
        v_fifo_bodies, v_fifo_attributes, v_http, v_http_keys, v_http_bodies, v_http_attributes, v_names
      from skipmq.deliveries(
        v_topic, p_message_ids[n], p_messages[n], p_message_bytes[n], p_attributes[n], v_text.head, v_text.heads,
        v_text.tail, p_texts[n]::jsonb, v_by_attributes, v_by_body, v_after, v_page) t;
      if v_unread then
        raise exception 'The policy of a queue is to be read.' using errcode = 'SQ015';
      end if;
      exit when v_count = 0;
      dead_lettered := dead_lettered + v_dead;
      dropped := dropped + v_none;
      if p_commit is null then
        perform skipmq.hold_generation(u.queue_id) from unnest(v_ids || v_fifos) u (queue_id);
      end if;
      if v_ids is not null then
        v_groups := case when p_group_ids[n] is not null and not v_fifo
          then array_fill(p_group_ids[n], array[cardinality(v_ids)]) end;
        perform skipmq.send_to_queues(
          v_ids, v_keys, v_bodies, v_attributes, null, v_groups, array_fill(p_trace_headers[n], array[cardinality(v_ids)]),
          array_fill(p_sender, array[cardinality(v_ids)]), v_commit, null);
      end if;
      for i in 1 .. coalesce(cardinality(v_fifos), 0) loop
        perform from skipmq.send_fifo_messages(
          v_fifos[i], v_fifo_keys[i:i], v_fifo_bodies[i:i], v_fifo_attributes[i:i], p_group_ids[n:n],
          p_deduplication_ids[n:n], p_trace_headers[n:n], p_sender, v_commit);
      end loop;
      if v_http is not null then
        insert into skipmq.http_delivery (delivery_id, topic_id, subscription_id, message_id, body, attributes, due_at)
        select u.key, p_topic_id, s.subscription_id, message_id, u.body, u.attributes, v_now
        from unnest(v_http, v_http_keys, v_http_bodies, v_http_attributes) u (id, key, body, attributes)
        join skipmq.subscription s on s.topic_id = p_topic_id and s.subscription_id = u.id
        for key share of s
        on conflict do nothing;
        perform pg_notify('skipmq_deliveries', '');
      end if;
      queue_ids := queue_ids || v_ids || v_fifos;
      queues := queues || v_names;
      exit when v_count < v_page;
    end loop;
    return next;
  end loop;
end $$;
