-- Does: claims up to p_limit messages of a FIFO queue and hides them, as claim_fifo_messages does for several receives.
--   Returns one row without an id when there is no message.
-- Called by: receive_fifo_attempt; SQL users.
-- Locks, in order: those of claim_fifo_messages.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is not FIFO; what check_receive raises.
-- Relies on index: those of claim_fifo_messages.
-- Routed: to the partition of p_queue_id.
--
-- p_commit sets synchronous_commit for the rest of the transaction. Null, for SQL users, leaves it unchanged and checks
-- the limit and the timeout, which nodes have checked themselves.
create function skipmq.receive_fifo_messages(
  p_queue_id bigint, p_limit integer default 1, p_visibility_timeout integer default null, p_commit text default null,
  p_receiver text default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, arrival_count integer, sequence_number bigint, deduplication_id text, next_visible_in interval
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_commit is null then
    p_limit := skipmq.check_receive(p_limit, p_visibility_timeout);
  end if;
  return query
  select
    c.id, c.receive_count, c.received_at, c.message_id, c.body, c.attributes, c.approximate_receive_count, c.sent_at,
    c.first_received_at, c.group_id, c.sender, c.trace_header, c.dead_letter_source, c.arrival_count, c.sequence_number,
    c.deduplication_id, c.next_visible_in
  from skipmq.claim_fifo_messages(p_queue_id, array[p_limit], p_visibility_timeout, p_commit, array[coalesce(p_receiver, skipmq.session_receiver())]) c;
end $$;
