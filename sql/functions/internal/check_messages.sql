-- Does: checks messages sent by SQL as nodes check HTTP requests; returns their attributes as nodes store them.
-- Called by: send_messages and send_fifo_messages, for SQL users.
-- Locks, in order: none.
-- Raises: what check_message and check_attributes raise; SQ008 for a wrong SkipMQ.Priority in a queue with priorities.
-- Relies on index: queue_id.
create function skipmq.check_messages(
  p_queue_id bigint, p_bodies text[], p_attributes text[], p_delays integer[], p_group_ids text[],
  p_deduplication_ids text[], p_trace_headers text[]
) returns text[]
language plpgsql stable
as $$
declare
  v_attributes record;
  v_stored text[];
  v_bytes bigint[];
  v_priority text;
begin
  if array_remove(p_attributes, null) <> '{}' then
    v_attributes := skipmq.check_attributes(p_attributes);
    v_stored := v_attributes.stored;
    v_bytes := v_attributes.bytes;
    select coalesce(p.value ->> 'StringValue', '') into v_priority
    from unnest(v_stored) a (text)
    cross join lateral (select a.text::jsonb -> 'SkipMQ.Priority' as value) p
    where strpos(a.text, 'SkipMQ.Priority') > 0 and p.value ->> 'StringValue' ~ '^[0-9]$' is not true and p.value is not null
      and exists (select from skipmq.queue q where q.queue_id = p_queue_id and q.priority_mode <> 'none')
    limit 1;
    if found then
      raise exception 'The message attribute ''SkipMQ.Priority'' with value ''%'' is invalid. A priority is a Number from 0 to 9.',
        skipmq.shown(v_priority) using errcode = 'SQ008';
    end if;
  end if;
  perform skipmq.check_message(
    q.fifo, q.maximum_message_size, q.maximum_delay_seconds, u.body, u.bytes, u.delay, u.group_id, u.deduplication_id, u.trace_header)
  from skipmq.queue q
  cross join unnest(p_bodies, v_bytes, p_delays, p_group_ids, p_deduplication_ids, p_trace_headers)
    u (body, bytes, delay, group_id, deduplication_id, trace_header)
  where q.queue_id = p_queue_id;
  return v_stored;
end $$;
