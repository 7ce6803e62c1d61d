-- Does: sends the next p_limit messages of a batch that stage_messages stored, in the order of their places; returns their
--   number, 0 when all are sent, and null, without sending, while the queue has p_depth messages or more. A batch that the
--   stream has sent is not sent again, unless the stream was not used for 90 days: its number is at most that of the last
--   one. An interrupted batch continues with the
--   parts that it began with. The messages of its parts are deleted at its end. A null batch is the only one of a stream
--   that is never repeated, and leaves no row.
-- Called by: the driver of Spark's sink `skipmq`, `skipmq analytics replay`; SQL users.
-- Locks, in order: those of granted_queue; the row of the stream, until the transaction ends; then those of
--   send_messages or send_fifo_messages.
-- Raises: what granted_queue, send_messages and send_fifo_messages raise; 55000 when the parts do not have
--   p_count messages, or another batch of the stream is unfinished.
-- Relies on index: staged_message_pkey, staged_batch_pkey, queue_id.
-- Routed: to the partition of p_queue.
create function skipmq.send_staged(
  p_queue text,
  p_stream text,
  p_batch bigint,
  p_parts uuid[],
  p_count bigint,
  p_limit integer,
  p_depth bigint default null,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- The settings of sql/planner.sql that it needs.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_target text := concat_ws('/', p_account, p_region, p_queue);
  v_commit text := current_setting('synchronous_commit');
  v_last skipmq.staged_batch;
  v_queue_id bigint := skipmq.granted_queue('send', p_queue, p_account, p_region);
  v_count bigint;
  v_place bigint;
  v_ids uuid[];
  v_bodies text[];
  v_attributes text[];
  v_delays integer[];
  v_groups text[];
  v_deduplication_ids text[];
  v_traces text[];
begin
  insert into skipmq.staged_batch as b (target, stream, batch, parts, sent_to, used_at)
  values (v_target, p_stream, -1, '{}', -1, skipmq.clock())
  on conflict (target, stream) do update set used_at = excluded.used_at
  returning b.* into v_last;
  if v_last.batch < coalesce(p_batch, 0) then
    if exists (
      select from skipmq.staged_message m where m.target = v_target and m.stream = p_stream and m.part = any (v_last.parts))
    then
      raise exception 'batch % of stream % is unfinished: batch % cannot be sent before', v_last.batch, p_stream, p_batch
        using errcode = '55000';
    end if;
    select count(*) into v_count from skipmq.staged_message m
    where m.target = v_target and m.stream = p_stream and m.part = any (p_parts);
    if v_count <> p_count then
      raise exception 'batch % of stream % has % staged messages, and not %: write it again',
        coalesce(p_batch, 0), p_stream, v_count, p_count using errcode = '55000';
    end if;
    v_last.parts := p_parts;
    v_last.sent_to := -1;
    update skipmq.staged_batch b set batch = coalesce(p_batch, 0), parts = p_parts, sent_to = -1
    where b.target = v_target and b.stream = p_stream;
  end if;

  if p_depth is not null then
    select p_depth - c.visible - c.in_flight - c.delayed into v_count from skipmq.count_messages(v_queue_id) c;
    p_limit := least(p_limit, v_count);
  end if;
  select
    array_agg(m.message_id), array_agg(m.body), array_agg(m.attributes), array_agg(m.delay), array_agg(m.group_id),
    array_agg(m.deduplication_id), array_agg(m.trace_header), max(m.place)
  into v_ids, v_bodies, v_attributes, v_delays, v_groups, v_deduplication_ids, v_traces, v_place
  from (
    select m.*
    from skipmq.staged_message m
    where m.target = v_target and m.stream = p_stream and m.place > v_last.sent_to and m.part = any (v_last.parts)
    order by m.place
    limit greatest(p_limit, 1)
  ) m;
  if v_ids is null then
    delete from skipmq.staged_message m
    where m.target = v_target and m.stream = p_stream and m.part = any (v_last.parts || p_parts);
    if p_batch is null then
      delete from skipmq.staged_batch b where b.target = v_target and b.stream = p_stream;
    end if;
    return 0;
  elsif p_limit <= 0 then
    return null;
  end if;
  if exists (select from skipmq.queue q where q.queue_id = v_queue_id and q.fifo) then
    perform skipmq.send_fifo_messages(
      v_queue_id, v_ids, v_bodies, v_attributes, v_groups, v_deduplication_ids, v_traces, session_user::text, v_commit);
  else
    perform skipmq.send_messages(
      v_queue_id, v_ids, v_bodies, v_attributes, v_delays, v_groups, v_traces, session_user::text, v_commit);
  end if;
  update skipmq.staged_batch b set sent_to = v_place where b.target = v_target and b.stream = p_stream;
  return cardinality(v_ids);
end $$;
