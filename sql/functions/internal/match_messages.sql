-- Does: returns up to p_limit messages of a generation after a place, in the order of their places, and whether each is
--   within retention and matches a filter (a text in the body, the name of an attribute, its value, and p_filter, the
--   members of matches_filter), and whether it is free: not in flight. A place is a time up to p_until and a number: in a standard queue the time at which a message became visible and its
--   id, in a FIFO queue the time of its arrival and its sequence number.
-- Called by: advance_message_task, search_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, message_visible; for FIFO message_enqueued.
--
-- A message that is deprioritised keeps its place.
create function skipmq.match_messages(
  p_queue_id bigint, p_after timestamptz, p_number bigint, p_until timestamptz, p_body text, p_name text, p_value text,
  p_limit integer, p_filter jsonb default null
) returns table (id bigint, message_id uuid, at timestamptz, number bigint, matches boolean, free boolean)
language plpgsql stable
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_horizon timestamptz;
begin
  select v_now - make_interval(secs => q.message_retention_period) into v_horizon
  from skipmq.queue q where q.queue_id = p_queue_id;
  return query
  select s.id, s.message_id, s.at, s.number,
    s.enqueued_at > v_horizon
    and (p_body is null or strpos(s.body, p_body) > 0)
    and (p_name is null or case
      when p_value is null then s.attributes::jsonb ? p_name
      else s.attributes::jsonb -> p_name ->> 'StringValue' = p_value end) is true
    and (p_filter is null or skipmq.matches_filter(
      s.body, s.attributes, s.receive_count - s.receive_base, s.sent_at, p_filter)),
    s.visible_at <= v_now or s.receive_count = s.receive_base
  from (
    select v.*
    from unnest(skipmq.shards(p_queue_id)) u (shard)
    cross join lateral (
      select m.visible_at as at, m.id as number, m.*
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = u.shard and m.group_no is null
        and (m.visible_at, m.id) > (p_after, p_number) and m.visible_at <= p_until
      order by m.visible_at, m.id
      limit p_limit
    ) v
    union all
    (select m.enqueued_at, m.sequence_number, m.*
    from skipmq.message m
    where m.queue_id = p_queue_id and m.group_no is not null
      and (m.enqueued_at, m.sequence_number) > (p_after, p_number) and m.enqueued_at <= p_until
    order by m.enqueued_at, m.sequence_number
    limit p_limit)
  ) s
  order by s.at, s.number
  limit p_limit;
end $$;
