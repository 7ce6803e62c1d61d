-- Does: writes a history row for each of the given message rows, which the caller has locked and will move, as the
--   history mode of their queue requires.
-- Called by: dead_letter, append_fifo, resend; settle and delete_messages do the same in the statements that delete.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), generation_pkey, queue_id.
create function skipmq.write_history(p_tids tid[], p_outcome text, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_xid bigint := pg_current_xact_id()::text::bigint;
  v_node text := nullif(current_setting('application_name'), '');
begin
  insert into skipmq.history (
    settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
    attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
  select
    p_now, m.sent_at, m.first_received_at, v_xid, m.id, m.queue_id, m.receive_count - m.receive_base,
    octet_length(m.body), coalesce(octet_length(m.attributes), 0), m.message_id, p_outcome::skipmq.outcome, m.group_id,
    m.deduplication_id, m.sender, m.trace_header,
    case when h.mode = 'full' then m.attributes end,
    case when h.mode = 'full' then m.body end,
    v_node
  from skipmq.message m
  cross join lateral (
    select coalesce(
      (select q.history_mode from skipmq.queue q where q.queue_id = m.queue_id),
      (select g.history_mode from skipmq.generation g where g.queue_id = m.queue_id)) as mode
  ) h
  where m.ctid = any (p_tids) and h.mode <> 'off';
end $$;
