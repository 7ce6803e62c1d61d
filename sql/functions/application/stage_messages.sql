-- Does: stores messages for send_staged, as rows of a part of a stream's next batch; returns those that the queue would
--   refuse, which it does not store, by their places, each with the reason.
-- Called by: the tasks of Spark's sink `skipmq`, `skipmq analytics replay`; SQL users.
-- Locks, in order: those of check_grant.
-- Raises: what check_grant raises; SQ001 when the queue does not exist.
-- Relies on index: queue_pkey, queue_id.
-- Routed: to the partition of p_queue.
--
-- The arrays are parallel, with one element for each message; a null array stands for nulls. A part is an attempt to write
-- a partition: another attempt has another part. Messages for a FIFO queue without a deduplication id, and without one by
-- their content, are given one of their own.
create function skipmq.stage_messages(
  p_queue text,
  p_stream text,
  p_part uuid,
  p_places bigint[],
  p_bodies text[],
  p_attributes text[] default null,
  p_delays integer[] default null,
  p_group_ids text[] default null,
  p_deduplication_ids text[] default null,
  p_trace_headers text[] default null,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns table (place bigint, reason text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_queue_id bigint;
  v_fifo boolean;
  v_attributes text[];
  v_nulls text[];
begin
  perform skipmq.check_grant('send', p_queue, p_account, p_region);
  v_queue_id := skipmq.queue_id(p_queue, p_account, p_region);
  select q.fifo into v_fifo from skipmq.queue q where q.queue_id = v_queue_id;
  v_nulls := array_fill(null::text, array[cardinality(p_bodies)]);
  begin
    if v_fifo and array_remove(p_delays, null) <> '{}' then
      raise exception 'Value % for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.',
        (array_remove(p_delays, null))[1] using errcode = 'SQ008';
    elsif not v_fifo and array_remove(p_deduplication_ids, null) <> '{}' then
      raise exception 'Value % for parameter MessageDeduplicationId is invalid. Reason: The request include parameter that is not valid for this queue type.',
        skipmq.shown((array_remove(p_deduplication_ids, null))[1]) using errcode = 'SQ008';
    elsif v_fifo then
      p_deduplication_ids := array(
        select coalesce(u.id, gen_random_uuid()::text)
        from unnest(skipmq.deduplication_ids(v_queue_id, coalesce(p_deduplication_ids, v_nulls), p_bodies))
          with ordinality u (id, place)
        order by u.place);
    end if;
    v_attributes := skipmq.check_messages(
      v_queue_id, p_bodies, coalesce(p_attributes, v_nulls), p_delays, p_group_ids, p_deduplication_ids, p_trace_headers);
  exception
    when sqlstate 'SQ007' or sqlstate 'SQ008' or sqlstate 'SQ009' or sqlstate 'SQ011' or sqlstate 'SQ012'
      or invalid_text_representation or untranslatable_character
    then
      if cardinality(p_bodies) = 1 then
        return query select p_places[1], sqlerrm;
        return;
      end if;
      -- Each by itself, in halves: few are refused.
      return query
      select r.place, r.reason
      from (
        values (1, cardinality(p_bodies) / 2), (cardinality(p_bodies) / 2 + 1, cardinality(p_bodies))
      ) h (first, last)
      cross join lateral skipmq.stage_messages(
        p_queue, p_stream, p_part, p_places[h.first:h.last], p_bodies[h.first:h.last], p_attributes[h.first:h.last],
        p_delays[h.first:h.last], p_group_ids[h.first:h.last], p_deduplication_ids[h.first:h.last],
        p_trace_headers[h.first:h.last], p_account, p_region) r;
      return;
  end;
  insert into skipmq.staged_message (
    target, stream, part, place, staged_at, message_id, delay, group_id, deduplication_id, trace_header, attributes, body)
  select
    concat_ws('/', p_account, p_region, p_queue), p_stream, p_part, u.place, skipmq.clock(), gen_random_uuid(), u.delay,
    u.group_id, u.deduplication_id, u.trace_header, u.attributes, u.body
  from unnest(
    p_places, p_bodies, v_attributes, p_delays, p_group_ids, p_deduplication_ids, p_trace_headers)
    u (place, body, attributes, delay, group_id, deduplication_id, trace_header);
end $$;
