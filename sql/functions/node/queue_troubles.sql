-- Does: returns what needs attention in the queues of an account and region, or in one, the worst first, up to p_limit:
--   of a queue with waiting messages and clients its worst state (not-received, not-deleted, redelivered, behind) with the
--   age of its oldest message; expiring with the time until the oldest message expires, a quarter of the retention period
--   and a day before; dead-lettered and expired with their number in 15 minutes and, of the 20 with most, the time since
--   the first after an hour without; so are messages that clients sent to a dead-letter queue (sent-dead), with its only
--   source; paused with the time since and by whom; task-failed with its age.
-- Called by: the GetOverview action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_dead_letter, queue_count_pkey, queue_minute_minute, and those of oldest_message and
--   count_messages.
-- Routed: to all partitions; the rows are merged, order by rank, seconds desc nulls last, messages desc, queue limit p_limit.
--
-- The bounds are those of the alerts in deploy/prometheus. A queue without sends for an hour and receives for half an hour
-- is no trouble, nor are a dead-letter queue's messages, unless they expire: no client waits for them. The 1,000 queues with most messages are
-- examined, of these in detail those whose oldest message is older than a minute.
create function skipmq.queue_troubles(
  p_account text, p_region text, p_limit integer default 100, p_queue text default null
)
returns table (
  rank integer, trouble text, queue text, policy text, seconds float8, messages bigint, dead_letter_queue text, reason text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_prefix text := format('arn:aws:sqs:%s:%s:', p_region, p_account);
begin
  return query
  with waiting as materialized (
    select q.*, skipmq.try_oldest_message(q.queue_id, q.fifo) as oldest
    from (
      select
        q.queue_id, q.name, q.fifo, q.policy, q.message_retention_period as retention, c.messages, exists (
          select from skipmq.queue s
          where s.dead_letter_account = p_account and s.region = p_region and s.dead_letter_name = q.name
        ) as dead_letters
      from skipmq.queue q
      join skipmq.queue_count c on c.queue_id = q.queue_id
      where q.account = p_account and q.region = p_region and (p_queue is null or q.name = p_queue)
        and c.messages > 0
      order by c.messages desc
      limit 1000
    ) q
  ), troubles (rank, trouble, queue, policy, seconds, messages, dead_letter_queue, reason) as (
    select
      case s.trouble when 'not-received' then 1 when 'not-deleted' then 2 when 'redelivered' then 3 else 5 end,
      s.trouble, w.name, w.policy, w.oldest, w.messages, null::text, null::text
    from waiting w
    cross join lateral (
      select
        sum(m.received) filter (where m.minute >= v_now - interval '10 minutes') as received_10,
        sum(m.received) filter (where m.minute >= v_now - interval '15 minutes') as received_15,
        sum(m.deleted + m.dead_lettered) filter (where m.minute >= v_now - interval '15 minutes') as ended_15,
        sum(m.received) as received_30, sum(m.deleted + m.dead_lettered) as ended_30
      from skipmq.queue_minute m
      where m.queue_id = w.queue_id and m.minute >= v_now - interval '30 minutes'
    ) r
    cross join lateral (
      select case
        when w.oldest > 600 and coalesce(r.received_10, 0) = 0
          then case when exists (
            select from skipmq.queue_minute m
            where m.queue_id = w.queue_id and m.minute >= v_now - interval '1 hour' and m.sent > 0
          ) and (select n.visible > 0 from skipmq.try_count_messages(w.queue_id, w.messages) n) then 'not-received' end
        when w.oldest > 1800 and r.received_30 > 0 and r.ended_30 = 0 then 'not-deleted'
        when r.received_15 > 20 and r.received_15 > 3 * r.ended_15 then 'redelivered'
        when w.oldest > 600 and r.received_10 > 0 then 'behind'
      end as trouble
      -- Merged into the query it would be evaluated twice, by its filter and its result.
      offset 0
    ) s
    where w.oldest > 60 and not w.dead_letters and s.trouble is not null
    union all
    select 2, 'expiring', w.name, w.policy, greatest(w.retention - w.oldest, 0), w.messages, null, null
    from waiting w
    where w.retention - w.oldest < least(w.retention / 4.0, 86400) and not exists (
      select from skipmq.queue_minute m
      where m.queue_id = w.queue_id and m.minute >= v_now - interval '15 minutes' and m.expired > 0)
    union all
    select
      case m.event when 'expired' then 0 else 4 end, m.event, m.name, m.policy,
      extract(epoch from v_now - b.minute)::float8, m.number, case m.event when 'dead-lettered' then m.dead_letter_name end,
      case when m.event = 'sent-dead' and m.first = m.last then m.first end
    from (
      select q.*, m.event, m.number, s.first, s.last, row_number() over (partition by m.event order by m.number desc) as place
      from (
        select m.queue_id, e.event, sum(e.number)::bigint as number
        from skipmq.queue_minute m
        cross join lateral (values
          ('dead-lettered', m.dead_lettered), ('expired', m.expired), ('sent-dead', m.sent - m.moved_in)) e (event, number)
        where m.minute >= v_now - interval '15 minutes' and e.number > 0
          and (p_queue is null or m.queue_id = (
            select q.queue_id from skipmq.queue q
            where q.account = p_account and q.region = p_region and q.name = p_queue))
        group by m.queue_id, e.event
      ) m
      join skipmq.queue q on q.queue_id = m.queue_id
      cross join lateral (
        select min(s.name) as first, max(s.name) as last
        from skipmq.queue s
        where m.event = 'sent-dead' and s.dead_letter_account = p_account and s.region = p_region
          and s.dead_letter_name = q.name
      ) s
      where q.account = p_account and q.region = p_region and (p_queue is null or q.name = p_queue)
        and (m.event <> 'sent-dead' or s.first is not null)
    ) m
    cross join lateral (
      select max(d.minute) as minute
      from (
        select d.minute, lag(d.minute) over (order by d.minute) as before
        from skipmq.queue_minute d
        where m.place <= 20 and d.queue_id = m.queue_id
          and case m.event when 'expired' then d.expired when 'sent-dead' then d.sent - d.moved_in else d.dead_lettered end > 0
      ) d
      where d.before is null or d.before < d.minute - interval '1 hour'
    ) b
    union all
    select 5, 'paused', q.name, q.policy, extract(epoch from v_now - q.paused_at)::float8, c.messages, null, q.paused_by
    from skipmq.queue q
    left join skipmq.queue_count c on c.queue_id = q.queue_id
    where q.account = p_account and q.region = p_region and q.paused and (p_queue is null or q.name = p_queue)
    union all
    select 6, 'task-failed', q.name, q.policy, extract(epoch from v_now - t.started_at)::float8, t.to_move - t.moved, null,
      t.failure_reason
    from (
      select distinct on (t.source_arn) t.*
      from skipmq.move_task t
      where starts_with(t.source_arn, v_prefix) and (p_queue is null or t.source_arn = v_prefix || p_queue)
      order by t.source_arn, t.started_at desc
    ) t
    join skipmq.queue q on q.account = p_account and q.region = p_region and q.name = substr(t.source_arn, length(v_prefix) + 1)
    where t.status = 'FAILED' and t.started_at > v_now - interval '1 day'
  )
  select t.rank, t.trouble, t.queue, t.policy, t.seconds, t.messages, t.dead_letter_queue, t.reason
  from troubles t
  order by t.rank, t.seconds desc nulls last, t.messages desc, t.queue
  limit p_limit;
end $$;
