-- Does: moves up to p_limit visible messages of a shard of a standard queue that have been received p_most times to
--   its dead-letter queue, where they are visible at once, with a row of history each; gives their number.
-- Called by: receive_messages, when it finds too few that it may give.
-- Locks, in order: queue row of the dead-letter queue (shared: it is neither purged nor deleted
--   meanwhile), message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- The move grows the fence, so that old receipts die, and hides that growth from the count that users see.
create function skipmq.move_dead_letters(
  p_queue_id integer, p_shard smallint, p_target integer, p_most integer, p_from timestamptz, p_to timestamptz, p_limit integer
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_source skipmq.queue;
  v_now timestamptz;
  v_count integer;
begin
  select q.* into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then -- Purged a moment ago.
    return 0;
  end if;
  perform from skipmq.queue q where q.queue_id = p_target for key share;
  if not found then
    return 0;
  end if;
  v_now := skipmq.write_time();
  with head as materialized (
    select m.ctid as tid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
      and m.visible_at >= p_from and m.visible_at <= p_to
      and m.receive_count - m.receive_base >= p_most
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  ), moved as (
    update skipmq.message m set
      queue_id = p_target,
      shard = 0,
      visible_at = v_now,
      receive_count = m.receive_count + 1,
      receive_base = m.receive_base + 1,
      dead_letter_source = format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
    from head h
    where m.ctid = h.tid
    returning m.*
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, pg_current_xact_id()::text::bigint, g.id, p_queue_id,
      g.receive_count - g.receive_base, octet_length(g.body), coalesce(octet_length(g.attributes), 0),
      g.message_id, 'dead-lettered', g.group_id, g.deduplication_id, g.sender, g.trace_header,
      case when v_source.history_mode = 'full' then g.attributes end,
      case when v_source.history_mode = 'full' then g.body end,
      nullif(current_setting('application_name'), '')
    from moved g
    where v_source.history_mode <> 'off'
  )
  select count(*) into v_count from moved;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change)
    values (v_now, p_queue_id, -v_count), (v_now, p_target, v_count);
  end if;
  return v_count;
end $$;
