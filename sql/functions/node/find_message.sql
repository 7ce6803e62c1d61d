-- Does: finds an unsettled message by its message id: with p_id in any queue; without it, or when that finds nothing, among
--   the first p_limit messages of a generation, in the order in which they become visible (FIFO: in which they arrived).
--   Returns one row, whose id is null when nothing was found; is_whole is false when p_limit ended the search.
-- Called by: the GetMessageTimeline action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_pkey, message_visible; for FIFO message_enqueued; generation_pkey, generation_to_clear, queue_id, queue_pkey.
-- Routed: to the partition of p_queue_id.
--
-- state_at is the time at which an in-flight or delayed message becomes visible, a visible one became visible, an expired
-- one expired, or the queue was purged or deleted.
create function skipmq.find_message(
  p_queue_id bigint, p_message_id uuid, p_id bigint default null, p_limit integer default 10000
) returns table (
  id bigint, account text, region text, name text, policy text, state text, state_at timestamptz, sent_at timestamptz,
  first_received_at timestamptz, receives integer, dead_letter_source text, is_whole boolean,
  failure text, failures jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_id bigint;
  v_queue_id bigint;
  v_passed integer := 0;
begin
  -- In any current queue, or one that is being cleared.
  select m.id, m.queue_id into v_id, v_queue_id
  from (
    select q.queue_id from skipmq.queue q
    union all
    select g.queue_id from skipmq.generation g where g.retired_at is not null and g.cleared_at is null
  ) g
  cross join lateral (
    select m.id, m.queue_id from skipmq.message m
    where m.queue_id = g.queue_id and m.id = p_id and m.message_id = p_message_id
  ) m
  where p_id is not null
  limit 1;
  if v_id is null then
    v_queue_id := p_queue_id;
    select min(s.id) filter (where s.message_id = p_message_id), count(*) into v_id, v_passed
    from (
      (select m.id, m.message_id from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is null
      order by m.shard, m.visible_at limit p_limit)
      union all
      (select m.id, m.message_id from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null
      order by m.enqueued_at limit p_limit)
    ) s;
  end if;
  if v_id is null then
    return query select
      null::bigint, null, null, null, null, null, null::timestamptz, null::timestamptz, null::timestamptz, null::integer, null,
      v_passed < p_limit, null, null::jsonb;
    return;
  end if;
  return query
  select m.id, g.account, g.region, g.name, coalesce(q.policy, ''), s.state, s.at, m.sent_at, m.first_received_at,
    m.receive_count - m.receive_base, m.dead_letter_source, true,
    m.attributes::jsonb -> 'FailureReason' ->> 'StringValue', m.failures
  from skipmq.message m
  join skipmq.generation g on g.queue_id = m.queue_id
  left join skipmq.queue q on q.account = g.account and q.region = g.region and q.name = g.name
  cross join lateral (
    select m.enqueued_at + make_interval(secs => q.message_retention_period) as expires_at,
      m.visible_at + case
        when q.fifo and m.receive_count = m.receive_base then make_interval(secs => q.delay_seconds) else '0' end as visible_at
  ) v
  cross join lateral (
    select 'purged' as state, g.retired_at as at where g.retired_at is not null
    union all
    select 'expired', v.expires_at where g.retired_at is null and v.expires_at <= v_now
    union all
    select case
        when v.visible_at <= v_now then 'visible'
        when m.receive_count = m.receive_base then 'delayed'
        else 'in-flight' end,
      v.visible_at
    where g.retired_at is null and v.expires_at > v_now
  ) s
  where m.queue_id = v_queue_id and m.id = v_id;
end $$;
