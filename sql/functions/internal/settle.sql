-- Does: deletes the given message rows, which the caller has locked, themselves or by their groups, and writes a history row
--   for each, as the history mode of their queue requires; returns their number.
-- Called by: delete_fifo_messages, delete_from_fifo_queues, delete_picked_messages, advance_message_task, erase_messages, expire_visible,
--   clear_group, clear_retired, expire_fifo.
-- Locks, in order: none except the caller's.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), generation_pkey, queue_id.
create function skipmq.settle(p_tids tid[], p_outcome text) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_xid bigint := pg_current_xact_id()::text::bigint;
  v_node text := nullif(current_setting('application_name'), '');
  v_count integer;
  v_far timestamptz[];
  v_far_queues bigint[];
begin
  -- As write_history, but in this statement: it would find the rows a second time.
  with gone as (
    delete from skipmq.message m where m.ctid = any (p_tids)
    returning m.*, coalesce(
      (select q.history_mode from skipmq.queue q where q.queue_id = m.queue_id),
      (select g.history_mode from skipmq.generation g where g.queue_id = m.queue_id)) as mode
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, v_xid, g.id, g.queue_id, g.receive_count - g.receive_base,
      octet_length(g.body), coalesce(octet_length(g.attributes), 0), g.message_id, p_outcome::skipmq.outcome, g.group_id,
      g.deduplication_id, g.sender, g.trace_header,
      case when g.mode = 'full' then g.attributes end,
      case when g.mode = 'full' then g.body end,
      v_node
    from gone g
    where g.mode <> 'off'
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event)
    select v_now, g.queue_id, -count(*), p_outcome from gone g group by g.queue_id
  )
  select count(*), array_agg(g.enqueued_at) filter (where g.enqueued_at > v_now),
    array_agg(g.queue_id) filter (where g.enqueued_at > v_now)
  into v_count, v_far, v_far_queues
  from gone g;
  if v_far is not null then
    perform skipmq.count_delayed(v_far_queues, v_far, -1);
  end if;
  return v_count;
end $$;
