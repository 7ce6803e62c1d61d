-- Does: returns, as queue_troubles does, the paused queues of an account and region (null: of all), or one, with the time
--   since and by whom, and the dead-letter queues to which clients sent messages themselves (sent-dead), with their number in
--   15 minutes, the time since the first after an hour without, and the source, if there is one alone; and queues whose last
--   task failed within a day (task-failed), with its age; and schedules that have ended because of a failure (schedule-ended).
-- Called by: queue_troubles.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_id, queue_dead_letter, queue_count_pkey, queue_minute_minute, queue_minute_pkey.
create function skipmq.queue_notices(p_account text, p_region text, p_queue text, p_now timestamptz)
returns table (
  rank integer, trouble text, account text, region text, queue text, policy text, seconds float8, messages bigint,
  reason text
)
language sql stable
as $$
  select 6, 'paused', q.account, q.region, q.name, q.policy, extract(epoch from p_now - q.paused_at)::float8, c.messages,
    q.paused_by
  from skipmq.queue q
  left join skipmq.queue_count c on c.queue_id = q.queue_id
  where q.paused and (p_account is null or q.account = p_account) and (p_region is null or q.region = p_region)
    and (p_queue is null or q.name = p_queue)
  union all
  select 5, 'sent-dead', q.account, q.region, q.name, q.policy, extract(epoch from p_now - b.minute)::float8, m.number,
    case when s.first = s.last then s.first end
  from (
    select m.queue_id, sum(m.sent - m.moved_in)::bigint as number
    from skipmq.queue_minute m
    where m.minute >= p_now - interval '15 minutes' and m.sent > m.moved_in
    group by m.queue_id
  ) m
  join skipmq.queue q on q.queue_id = m.queue_id
  cross join lateral (
    select min(s.name) as first, max(s.name) as last
    from skipmq.queue s
    where s.dead_letter_account = q.account and s.region = q.region and s.dead_letter_name = q.name
  ) s
  cross join lateral (
    select max(d.minute) as minute
    from (
      select d.minute, lag(d.minute) over (order by d.minute) as before
      from skipmq.queue_minute d
      where d.queue_id = m.queue_id and d.sent > d.moved_in
    ) d
    where d.before is null or d.before < d.minute - interval '1 hour'
  ) b
  where s.first is not null and (p_account is null or q.account = p_account) and (p_region is null or q.region = p_region)
    and (p_queue is null or q.name = p_queue)
  union all
  select 7, 'task-failed', q.account, q.region, q.name, q.policy, extract(epoch from p_now - t.started_at)::float8,
    t.to_move - t.moved, t.failure_reason
  from (
    select distinct on (t.source_arn) t.* from skipmq.move_task t order by t.source_arn, t.started_at desc
  ) t
  join skipmq.queue q on q.account = split_part(t.source_arn, ':', 5) and q.region = split_part(t.source_arn, ':', 4)
    and q.name = split_part(t.source_arn, ':', 6)
  where t.status = 'FAILED' and t.started_at > p_now - interval '1 day'
    and (p_account is null or q.account = p_account) and (p_region is null or q.region = p_region)
    and (p_queue is null or q.name = p_queue)
  union all
  select 7, 'schedule-ended', s.account, s.region, s.queue, q.policy, null, null, format('%s: %s', s.name, s.failure)
  from skipmq.schedule s
  left join skipmq.queue q on q.account = s.account and q.region = s.region and q.name = s.queue
  where s.next_at is null and s.failure is not null
    and (p_account is null or s.account = p_account) and (p_region is null or s.region = p_region)
    and (p_queue is null or s.queue = p_queue)
$$;
