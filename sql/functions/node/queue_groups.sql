-- Does: returns up to p_limit groups of a FIFO queue, those first that become available last: groups in flight, longest until,
--   before visible ones; after the place p_after (the place of a row), or the group p_group alone. A row has the group's first
--   message; since when (for `held` seconds) and until when that is in flight, and by whom (the receiver of claim_fifo_messages); and how many messages
--   wait behind those in flight, up to p_most.
-- Called by: the ListMessageGroups action; SQL users.
-- Locks, in order: none.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is not FIFO.
-- Relies on index: message_group_available, message_group_pkey, message_group_order.
-- Routed: to the partition of p_queue_id.
--
-- A group that is received between two pages may be returned twice, or not at all.
create function skipmq.queue_groups(
  p_queue_id bigint, p_limit integer default 50, p_after text default null, p_group text default null, p_most integer default 1000
) returns table (
  place text, group_id text, id bigint, message_id uuid, sent_at timestamptz, receives integer, state text,
  in_flight integer, received_at timestamptz, held float8, until timestamptz, receiver text, behind integer
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_delay interval;
  v_after text[] := string_to_array(p_after, '/');
begin
  perform skipmq.check_generation(p_queue_id, true);
  select make_interval(secs => q.delay_seconds) into v_delay from skipmq.queue q where q.queue_id = p_queue_id;
  return query
  select
    concat_ws('/', extract(epoch from g.available_at), g.group_no), m.group_id, m.id, m.message_id, m.sent_at, m.receives, s.state,
    b.in_flight, case when s.state = 'in-flight' then g.received_at end,
    case when s.state = 'in-flight' then extract(epoch from v_now - g.received_at)::float8 end,
    case when s.state <> 'visible' then m.due_at end,
    case when s.state = 'in-flight' then g.receiver end, b.passed - b.in_flight
  from (
    (select g.* from skipmq.message_group g
    where p_group is null and g.queue_id = p_queue_id and g.available_at > '-infinity'
      and (g.available_at, g.group_no) < (
        coalesce(to_timestamp(v_after[1]::numeric), 'infinity'), coalesce(v_after[2]::bigint, 9223372036854775807))
    order by g.available_at desc, g.group_no desc)
    union all
    select g.* from skipmq.message_group g
    where g.queue_id = p_queue_id and g.group_no = hashtextextended(p_group, p_queue_id) and g.available_at > '-infinity'
      and v_after is null
  ) g
  cross join lateral (
    select m.*, m.receive_count - m.receive_base as receives,
      m.visible_at + case when m.receive_count = m.receive_base then v_delay else '0' end as due_at
    from skipmq.message m
    where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number >= g.first_number
    order by m.sequence_number
    limit 1
  ) m
  cross join lateral (
    select case when m.due_at <= v_now then 'visible' when m.receives = 0 then 'delayed' else 'in-flight' end as state
  ) s
  cross join lateral (
    select count(*)::integer as passed,
      (count(*) filter (where e.visible_at > v_now and e.receive_count > e.receive_base))::integer as in_flight
    from (
      select e.visible_at, e.receive_count, e.receive_base from skipmq.message e
      where e.queue_id = p_queue_id and e.group_no = g.group_no and e.sequence_number >= m.sequence_number
      order by e.sequence_number
      limit p_most
    ) e
  ) b
  limit p_limit;
end $$;
