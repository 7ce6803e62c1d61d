-- Does: claims up to p_limit messages of the named queue, standard or FIFO, and hides them for p_visibility_timeout
--   seconds (null: the queue's); those of a FIFO group are in order. Returns no row when there is no message.
-- Called by: SQL users.
-- Locks, in order: those of granted_queue, then of receive_messages or receive_fifo_messages, then of note_consumer.
-- Raises: what granted_queue and check_receive raise; SQ001 when the queue does not exist, SQ005 when it is purged or
--   deleted concurrently: call again.
-- Relies on index: queue_pkey, and those of the functions it calls.
-- Routed: to the partition of p_queue.
--
-- receive_count is the fencing token that a delete requires, and grows with each receive; approximate_receive_count is the
-- count that SQS returns, which continues in a dead-letter queue; deliveries counts the receives from this queue alone, as
-- its redrive policy does.
create function skipmq.receive_message(
  p_queue text,
  p_limit integer default 1,
  p_visibility_timeout integer default null,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns table (
  id bigint, receive_count integer, message_id uuid, body text, attributes jsonb, group_id text,
  sequence_number bigint, deduplication_id text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, sender text, trace_header text, dead_letter_source text,
  deliveries integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint := skipmq.granted_queue('receive', p_queue, p_account, p_region);
  v_count integer;
begin
  if p_queue collate "C" like '%.fifo' then
    return query
    select
      r.id, r.receive_count, r.message_id, r.body, r.attributes::jsonb, r.group_id, r.sequence_number,
      r.deduplication_id, r.approximate_receive_count, r.sent_at, r.first_received_at, r.sender, r.trace_header,
      r.dead_letter_source, r.approximate_receive_count - coalesce(r.arrival_count, 0)
    from skipmq.receive_fifo_messages(v_queue_id, p_limit, p_visibility_timeout) r
    where r.id is not null;
  else
    return query
    select
      r.id, r.receive_count, r.message_id, r.body, r.attributes::jsonb, r.group_id, null::bigint,
      null::text, r.approximate_receive_count, r.sent_at, r.first_received_at, r.sender, r.trace_header,
      r.dead_letter_source, r.approximate_receive_count - coalesce(r.arrival_count, 0)
    from skipmq.receive_messages(v_queue_id, p_limit, p_visibility_timeout) r
    where r.id is not null;
  end if;
  get diagnostics v_count = row_count;
  perform skipmq.add_receives(array[v_queue_id], array[v_count], array[(v_count = 0)::integer]);
  perform skipmq.note_consumer(v_queue_id);
end $$;
