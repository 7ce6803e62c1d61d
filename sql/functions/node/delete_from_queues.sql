-- Does: deletes messages of several standard queues, for each queue as delete_messages does, but does not wait for one that
--   another transaction has locked. Returns the places of those, and as negative numbers the places of messages whose queue's
--   generation does not exist, or is that of a FIFO queue.
-- Called by: the DeleteMessage and DeleteMessageBatch actions, when requests for several queues run together.
-- Locks, in order: message rows in any order, skipping locked ones.
-- Raises: nothing.
-- Relies on index: message_pkey, queue_id.
-- Routed: not: nodes run it on the partition of the queues.
create function skipmq.delete_from_queues(
  p_queue_ids bigint[], p_ids bigint[], p_receive_counts integer[], p_message_ids uuid[], p_commit text
) returns bigint[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_xid bigint := pg_current_xact_id()::text::bigint;
  v_node text := nullif(current_setting('application_name'), '');
  v_count integer;
begin
  p_commit := set_config('synchronous_commit', p_commit, true);
  with gone as (
    delete from skipmq.message m
    using (
      select m.tid, q.history_mode
      from unnest(p_queue_ids, p_ids, p_receive_counts, p_message_ids) u (queue_id, id, receive_count, message_id)
      join skipmq.queue q on q.queue_id = u.queue_id and not q.fifo
      cross join lateral (
        select m.ctid as tid
        from skipmq.message m
        where m.id = u.id and m.receive_count = u.receive_count and m.message_id = u.message_id and m.queue_id = u.queue_id
        for update skip locked
      ) m
    ) r
    where m.ctid = r.tid
    -- As in delete_messages.
    returning
      m.queue_id, m.sent_at, m.first_received_at, m.id, m.receive_count - m.receive_base as receive_count,
      octet_length(m.body) as body_bytes, coalesce(octet_length(m.attributes), 0) as attribute_bytes, m.message_id, m.group_id,
      m.deduplication_id, m.sender, m.trace_header, r.history_mode,
      case when r.history_mode = 'full' then m.attributes end as attributes,
      case when r.history_mode = 'full' then m.body end as body
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, v_xid, g.id, g.queue_id, g.receive_count, g.body_bytes, g.attribute_bytes,
      g.message_id, 'deleted', g.group_id, g.deduplication_id, g.sender, g.trace_header, g.attributes, g.body, v_node
    from gone g
    where g.history_mode <> 'off'
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change, event)
    select v_now, g.queue_id, -count(*), 'deleted' from gone g group by g.queue_id
  )
  select count(*) into v_count from gone;
  if v_count = cardinality(p_ids) then
    return '{}';
  end if;
  return array(
    select case when q.found then u.place else -u.place end
    from unnest(p_queue_ids, p_ids, p_receive_counts, p_message_ids) with ordinality
      u (queue_id, id, receive_count, message_id, place)
    cross join lateral (
      select exists (select from skipmq.queue q where q.queue_id = u.queue_id and not q.fifo) as found
    ) q
    where not q.found or exists (
      select from skipmq.message m
      where m.id = u.id and m.receive_count = u.receive_count and m.message_id = u.message_id and m.queue_id = u.queue_id));
end $$;
