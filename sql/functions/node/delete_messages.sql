-- Does: deletes messages whose ids and receive counts still are those given, and writes history rows as the queue's history
--   mode requires; returns their number. Others are skipped: an old receipt deletes nothing, and deleting twice is not
--   an error.
-- Called by: the DeleteMessage and DeleteMessageBatch actions; SQL users.
-- Locks, in order: message rows by id.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is FIFO.
-- Relies on index: message_pkey, queue_id.
-- Routed: to the partition of p_queue_id.
--
-- The delete finds its rows by id, not by ctid: when a concurrent change of visibility moves a row, PostgreSQL rechecks
-- the new version and deletes it; one that was received again no longer matches its receipt.
-- A server that lost committed messages assigns their numbers (p_ids) again, but not their p_message_ids.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it unchanged.
create function skipmq.delete_messages(
  p_queue_id bigint, p_ids bigint[], p_receive_counts integer[], p_message_ids uuid[], p_commit text default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_xid bigint := pg_current_xact_id()::text::bigint;
  v_count integer;
  v_mode text;
  v_node text := nullif(current_setting('application_name'), '');
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  select q.history_mode into v_mode from skipmq.queue q where q.queue_id = p_queue_id and not q.fifo;
  if not found then
    perform skipmq.check_generation(p_queue_id, false);
  end if;
  with gone as (
    delete from skipmq.message m
    using (
      select u.* from unnest(p_ids, p_receive_counts, p_message_ids) u (id, receive_count, message_id)
      order by u.id
    ) r
    where m.id = r.id and m.receive_count = r.receive_count and m.message_id = r.message_id and m.queue_id = p_queue_id
    -- No more than the history needs: each column and row costs.
    returning
      m.sent_at, m.first_received_at, m.id, m.receive_count - m.receive_base as receive_count, octet_length(m.body) as body_bytes,
      coalesce(octet_length(m.attributes), 0) as attribute_bytes, m.message_id, m.group_id, m.deduplication_id, m.sender,
      m.trace_header,
      case when v_mode = 'full' then m.attributes end as attributes, case when v_mode = 'full' then m.body end as body
  ), kept as (
    -- As write_history, but in this statement: each delete would pay for a second one.
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, v_xid, g.id, p_queue_id, g.receive_count, g.body_bytes, g.attribute_bytes,
      g.message_id, 'deleted', g.group_id, g.deduplication_id, g.sender, g.trace_header, g.attributes, g.body, v_node
    from gone g
    where v_mode <> 'off'
  )
  select count(*) into v_count from gone;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change, event) values (v_now, p_queue_id, -v_count, 'deleted');
  end if;
  return v_count;
end $$;
