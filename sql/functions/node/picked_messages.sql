-- Does: returns the messages of a generation with these ids and message ids, in the order of p_ids and in the form of peek_messages. With
--   p_bytes the last one is that whose body, attributes and failures bring them to p_bytes or more.
-- Called by: the PeekMessages and SearchMessages actions; SQL users.
-- Locks, in order: none.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: queue_id, message_pkey.
-- Routed: to the partition of p_queue_id.
create function skipmq.picked_messages(
  p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_bytes bigint default null
) returns table (
  place text, id bigint, state text, visible_in interval, message_id uuid, body text, attributes text,
  approximate_receive_count integer, sent_at timestamptz, first_received_at timestamptz, group_id text,
  sender text, trace_header text, dead_letter_source text, sequence_number bigint, deduplication_id text,
  failures jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
  v_horizon timestamptz;
begin
  -- The delay of a FIFO queue is not part of visible_at.
  select make_interval(secs => case when q.fifo then q.delay_seconds else 0 end),
    v_now - make_interval(secs => q.message_retention_period)
  into v_delay, v_horizon
  from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  return query
  select null::text, m.id, case
      when m.due_at <= v_now then 'visible'
      when m.receive_count = m.receive_base then 'delayed'
      else 'in-flight' end,
    greatest(m.due_at - v_now, '0'), m.message_id, m.body, m.attributes, m.receive_count - m.receive_base, m.sent_at,
    m.first_received_at, m.group_id, m.sender, m.trace_header, m.dead_letter_source, m.sequence_number,
    m.deduplication_id, m.failures
  from (
    select p.place, l.*,
      sum(octet_length(l.body) + coalesce(octet_length(l.attributes), 0) + coalesce(octet_length(l.failures::text), 0)) over (
        order by p.place rows between unbounded preceding and 1 preceding) as bytes_before
    from unnest(p_ids, p_message_ids) with ordinality p (id, message_id, place)
    cross join lateral (
      select m.*, m.visible_at + case when m.receive_count = m.receive_base then v_delay else '0' end as due_at
      from skipmq.message m
      where m.id = p.id and m.message_id = p.message_id and m.queue_id = p_queue_id and m.enqueued_at > v_horizon
    ) l
  ) m
  where p_bytes is null or coalesce(m.bytes_before, 0) < p_bytes
  order by m.place;
end $$;
