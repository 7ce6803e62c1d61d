-- Does: returns up to p_limit messages of a queue after p_after without receiving them, in the order in which they become
--   visible, received ones last (FIFO: in which they arrived): of one state (visible, in-flight, delayed), or of all.
--   place is the p_after of the next page. With p_bytes a page ends with the message whose body, attributes and failures bring it
--   to p_bytes or more.
-- Called by: the PeekMessages action; SQL users.
-- Locks, in order: none.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: queue_id, message_visible; for FIFO message_enqueued, and those of fifo_in_flight.
-- Routed: to the partition of p_queue_id.
--
-- A state is a range of times, so that a backlog of another state is not read. A message that is received between two
-- pages may be returned twice.
create function skipmq.peek_messages(
  p_queue_id bigint, p_state text default null, p_limit integer default 10, p_after text default null,
  p_bytes bigint default null
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
  v_queue skipmq.queue;
  v_delay interval;
  v_horizon timestamptz;
  -- Of the arrivals of messages in the state, in a FIFO queue.
  v_from timestamptz := '-infinity';
  v_until timestamptz := 'infinity';
  v_after text[] := string_to_array(p_after, '/');
begin
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  v_horizon := v_now - make_interval(secs => v_queue.message_retention_period);
  if v_queue.fifo then
    v_delay := make_interval(secs => v_queue.delay_seconds);
    if p_state = 'delayed' then
      v_from := v_now - v_delay;
    elsif p_state = 'in-flight' then
      select coalesce(min(f.enqueued_at), 'infinity'), coalesce(max(f.enqueued_at), '-infinity') into v_from, v_until
      from skipmq.fifo_in_flight(p_queue_id, v_now) f;
    end if;
    return query
    select concat_ws('/', extract(epoch from m.enqueued_at), m.sequence_number), m.id, m.state,
      greatest(m.due_at - v_now, '0'), m.message_id, m.body, m.attributes, m.receive_count - m.receive_base,
      m.sent_at, m.first_received_at, m.group_id, m.sender, m.trace_header, m.dead_letter_source,
      m.sequence_number, m.deduplication_id, m.failures
    from (
      select m.*, s.due_at, s.state,
        sum(octet_length(m.body) + coalesce(octet_length(m.attributes), 0) + coalesce(octet_length(m.failures::text), 0)) over (
          order by m.enqueued_at, m.sequence_number rows between unbounded preceding and 1 preceding) as bytes_before
      from skipmq.message m
      cross join lateral (
        select
          m.visible_at + case when m.receive_count = m.receive_base then v_delay else '0' end as due_at
      ) v
      cross join lateral (
        select v.due_at, case
          when v.due_at <= v_now then 'visible'
          when m.receive_count = m.receive_base then 'delayed'
          else 'in-flight' end as state
      ) s
      where m.queue_id = p_queue_id and m.group_no is not null
        and (m.enqueued_at, m.sequence_number) > (
          coalesce(to_timestamp(v_after[1]::numeric), '-infinity'), coalesce(v_after[2]::bigint, -1))
        and m.enqueued_at > v_horizon and m.enqueued_at between v_from and v_until
        and (p_state is null or s.state = p_state)
      order by m.enqueued_at, m.sequence_number
      limit p_limit
    ) m
    where p_bytes is null or coalesce(m.bytes_before, 0) < p_bytes
    order by m.enqueued_at, m.sequence_number;
    return;
  end if;
  return query
  select concat_ws('/', m.shard, extract(epoch from m.visible_at), m.id), m.id, m.state,
    greatest(m.visible_at - v_now, '0'), m.message_id, m.body, m.attributes, m.receive_count - m.receive_base,
    m.sent_at, m.first_received_at, m.group_id, m.sender, m.trace_header, m.dead_letter_source, null::bigint,
    null::text, m.failures
  from (
    select m.*,
      sum(octet_length(m.body) + coalesce(octet_length(m.attributes), 0) + coalesce(octet_length(m.failures::text), 0)) over (
        order by m.shard, m.visible_at, m.id rows between unbounded preceding and 1 preceding) as bytes_before
    from (
      select m.*
      from unnest(skipmq.shards(p_queue_id)) s (shard)
      cross join lateral (
        select m.*, t.state
        from skipmq.message m
        cross join lateral (
          select case
            when m.visible_at <= v_now then 'visible'
            when m.receive_count = m.receive_base then 'delayed'
            else 'in-flight' end as state
        ) t
        where m.queue_id = p_queue_id and m.group_no is null and m.shard = s.shard
          and s.shard >= coalesce(v_after[1]::smallint, -1)
          and (m.visible_at, m.id) > (
            case when s.shard = v_after[1]::smallint then to_timestamp(v_after[2]::numeric) else '-infinity' end,
            case when s.shard = v_after[1]::smallint then v_after[3]::bigint else -1 end)
          and m.visible_at >= case when p_state in ('in-flight', 'delayed') then v_now else '-infinity' end
          and m.visible_at <= case when p_state = 'visible' then v_now else 'infinity' end
          and m.enqueued_at > v_horizon and (p_state is null or t.state = p_state)
        order by m.visible_at, m.id
        limit p_limit
      ) m
      order by m.shard, m.visible_at, m.id
      limit p_limit
    ) m
  ) m
  where p_bytes is null or coalesce(m.bytes_before, 0) < p_bytes
  order by m.shard, m.visible_at, m.id;
end $$;
