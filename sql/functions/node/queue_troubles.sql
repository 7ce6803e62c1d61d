-- Does: returns what needs attention in the queues of an account and region (null: of all), or in one, the worst first, up to p_limit: of a
--   queue with waiting messages and clients its worst state (not-received, not-deleted, redelivered, receivers-idle, repeated, behind,
--   or what held_back says) with the age of its oldest message; expiring with the time until that expires, a quarter of the retention
--   period and a day before; dead-lettered and expired with their number in 15 minutes, the usual number of the former, and, of the 20
--   with most, the time since the first after an hour without, and new kinds of failure (new-failure); those of queue_notices.
-- Called by: the GetOverview action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_dead_letter, queue_count_pkey, queue_minute_minute, queue_period_start, generation_pkey, and those of
--   generations, oldest_message, count_messages, repeated_messages, held_back, new_failures and queue_notices.
-- Routed: to all partitions; the rows are merged, order by rank, messages / greatest(usual, 1) desc nulls last,
--   seconds desc nulls last, messages desc, queue limit p_limit.
--
-- The bounds are those of the alerts in deploy/prometheus. A queue without sends for an hour and receives for half an hour is no trouble,
-- nor are the messages of a paused queue or of a dead-letter queue, unless they expire. The 1,000 queues with most messages are
-- examined, of these in detail those whose oldest message is older than a minute.
create function skipmq.queue_troubles(
  p_account text, p_region text, p_limit integer default 100, p_queue text default null
)
returns table (
  rank integer, trouble text, account text, region text, queue text, policy text, seconds float8, messages bigint,
  dead_letter_queue text, reason text, usual float8
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = auto
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
begin
  return query
  with matching as not materialized (
    select q.*
    from skipmq.queue q
    where (p_account is null or q.account = p_account) and (p_region is null or q.region = p_region)
      and (p_queue is null or q.name = p_queue)
  ), waiting as materialized (
    select q.*, skipmq.try_oldest_message(q.queue_id, q.fifo) as oldest
    from (
      select q.*, c.messages, q.message_retention_period as retention, q.paused or exists (
          select from skipmq.queue s
          where s.dead_letter_account = q.account and s.region = q.region and s.dead_letter_name = q.name
        ) as waits_for_none
      from matching q
      join skipmq.queue_count c on c.queue_id = q.queue_id
      where c.messages > 0
      order by c.messages desc
      limit 1000
    ) q
  ), ended as materialized (
    select q.*, m.event, m.number, row_number() over (partition by m.event order by m.number desc) as place
    from (
      select q.queue_id, e.event, sum(e.number)::bigint as number
      from skipmq.queue_minute m
      cross join lateral (values ('dead-lettered', m.dead_lettered), ('expired', m.expired)) e (event, number)
      join skipmq.generation g on g.queue_id = m.queue_id
      join matching q on (q.account, q.region, q.name) = (g.account, g.region, g.name) and q.created_at <= g.created_at
      where m.minute >= v_now - interval '15 minutes' and e.number > 0
        and (p_queue is null or m.queue_id = any (array(select g.queue_id from matching x, skipmq.generations(x.queue_id) g)))
      group by q.queue_id, e.event
    ) m
    join matching q on q.queue_id = m.queue_id
  ), troubles as (
    select
      coalesce(array_position(array['not-received', 'not-deleted', 'redelivered'], h.trouble), 6) as rank,
      h.trouble, w.account, w.region, w.name as queue, w.policy, coalesce(h.seconds, w.oldest) as seconds,
      case when s.trouble = 'repeated' then p.messages else w.messages end as messages,
      null::text as dead_letter_queue, case when s.trouble = 'repeated' then p.receives::text else h.reason end as reason, null::float8 as usual
    from waiting w
    cross join lateral (
      select
        coalesce(sum(m.empty_receives) filter (where m.minute >= v_now - interval '5 minutes'), 0) as empty_5,
        coalesce(sum(m.received) filter (where m.minute >= v_now - interval '5 minutes'), 0) as received_5,
        coalesce(sum(m.received) filter (where m.minute >= v_now - interval '10 minutes'), 0) as received_10,
        coalesce(sum(m.empty_receives) filter (where m.minute >= v_now - interval '10 minutes'), 0) as empty_10,
        coalesce(sum(m.sent) filter (where m.minute >= v_now - interval '10 minutes'), 0) as sent_10,
        coalesce(sum(m.deleted) filter (where m.minute >= v_now - interval '10 minutes'), 0) as deleted_10,
        sum(m.received) filter (where m.minute >= v_now - interval '15 minutes') as received_15,
        sum(m.deleted + m.dead_lettered) filter (where m.minute >= v_now - interval '15 minutes') as ended_15,
        sum(m.received) as received_30, sum(m.deleted + m.dead_lettered) as ended_30
      from skipmq.queue_minute m
      where m.queue_id = w.queue_id and m.minute >= v_now - interval '30 minutes'
    ) r
    -- Consumers keep pace but for messages on which they fail.
    left join lateral skipmq.repeated_messages(w.queue_id, w.fifo) p
      on w.oldest > 600 and r.received_10 > 0 and r.deleted_10 >= 0.9 * r.sent_10 and not w.waits_for_none
    cross join lateral (
      select case
        when w.oldest > 600 and r.received_10 = 0 and r.empty_10 = 0
          then case when exists (
            select from skipmq.queue_minute m
            where m.queue_id = w.queue_id and m.minute >= v_now - interval '1 hour' and m.sent > 0
          ) and (select n.visible > 0 from skipmq.try_count_messages(w.queue_id, w.messages) n) then 'not-received' end
        when w.oldest > 1800 and r.received_30 > 0 and r.ended_30 = 0 then 'not-deleted'
        when r.received_15 > 20 and r.received_15 > 3 * r.ended_15 then 'redelivered'
        when r.empty_5 > 10 and r.received_5 = 0
          then (select 'receivers-idle' from skipmq.try_count_messages(w.queue_id, w.messages) n where n.visible > 0)
        when w.oldest > 600 and r.received_10 > 0 then case when p.messages > 0 then 'repeated' else 'behind' end
      end as trouble
      offset 0 -- Merged into the query it would be evaluated twice, by its filter and its result.
    ) s
    cross join lateral skipmq.held_back(w.queue_id, s.trouble, r.received_10 / 600.0) h
    where w.oldest > 60 and not w.waits_for_none and s.trouble is not null
    union all
    select 2, 'expiring', w.account, w.region, w.name, w.policy, greatest(w.retention - w.oldest, 0), w.messages, null, null, null
    from waiting w
    where w.retention - w.oldest < least(w.retention / 4.0, 86400) and not exists (
      select from ended e where e.queue_id = w.queue_id and e.event = 'expired')
    union all
    select 4, 'new-failure', m.account, m.region, m.name, m.policy, extract(epoch from v_now - f.first)::float8, f.messages,
      m.dead_letter_name, f.kind, null
    from ended m
    join skipmq.queue d on d.account = m.dead_letter_account and d.region = m.region and d.name = m.dead_letter_name
    cross join lateral (
      -- Kinds with a number in them would leave no room for others.
      select f.* from skipmq.new_failures(d.queue_id, d.fifo, v_now - interval '1 hour') f
      where f.source is null or f.source = format('arn:aws:sqs:%s:%s:%s', m.region, m.account, m.name)
      order by f.messages desc, f.kind limit 3
    ) f
    where m.event = 'dead-lettered' and m.place <= 20
    union all
    select
      case m.event when 'expired' then 0 else 5 end, m.event, m.account, m.region, m.name, m.policy,
      extract(epoch from v_now - b.minute)::float8, m.number, case m.event when 'dead-lettered' then m.dead_letter_name end,
      null, case m.event when 'dead-lettered' then coalesce(u.usual, 0) end
    from ended m
    cross join lateral (
      select max(d.minute) as minute
      from (
        select d.minute, lag(d.minute) over (order by d.minute) as before
        from skipmq.queue_minute d
        where m.place <= 20 and d.queue_id in (select g.queue_id from skipmq.generations(m.queue_id) g)
          and case m.event when 'expired' then d.expired else d.dead_lettered end > 0
      ) d
      where d.before is null or d.before < d.minute - interval '1 hour'
    ) b
    cross join lateral ( -- Seven days have 672 quarters of an hour.
      select sum(p.dead_lettered)::float8 / 672 as usual from skipmq.queue_period p
      where p.queue_id in (select g.queue_id from skipmq.generations(m.queue_id) g)
    ) u
    union all
    select n.rank, n.trouble, n.account, n.region, n.queue, n.policy, n.seconds, n.messages, null, n.reason, null
    from skipmq.queue_notices(p_account, p_region, p_queue, v_now) n
  )
  select t.rank, t.trouble, t.account, t.region, t.queue, t.policy, t.seconds, t.messages, t.dead_letter_queue, t.reason, t.usual
  from troubles t
  order by t.rank, t.messages / greatest(t.usual, 1) desc nulls last, t.seconds desc nulls last, t.messages desc, t.queue
  limit p_limit;
end $$;
