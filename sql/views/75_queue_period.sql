-- The events of each queue of the last seven days by period, which begins at `start`: ten minutes, of the last six hours
-- minutes. The events that no period has yet are in a row of the minute of their own. All rows of a queue together are exact
-- in every snapshot, but received, which nodes add once a second. `messages` are those at the end of the period, else null.
create view skipmq_views.queue_period as
select
  p.start, p.queue_id, g.account, g.region, g.name as queue, p.sent, p.received, p.deleted, p.dead_lettered, p.expired,
  p.messages
from (
  select p.start, p.queue_id, p.sent, p.received, p.deleted, p.dead_lettered, p.expired, p.messages from skipmq.queue_period p
  union all
  select m.minute, m.queue_id, m.sent, m.received, m.deleted, m.dead_lettered, m.expired, m.messages from skipmq.queue_minute m
  union all
  select
    date_trunc('minute', d.at, 'UTC'), d.queue_id,
    coalesce(sum(coalesce(d.number, abs(d.change))) filter (where d.event in ('sent', 'moved-in')), 0)::bigint,
    coalesce(sum(coalesce(d.number, abs(d.change))) filter (where d.event = 'received'), 0)::bigint,
    coalesce(sum(coalesce(d.number, abs(d.change))) filter (where d.event = 'deleted'), 0)::bigint,
    coalesce(sum(coalesce(d.number, abs(d.change))) filter (where d.event = 'dead-lettered'), 0)::bigint,
    coalesce(sum(coalesce(d.number, abs(d.change))) filter (where d.event = 'expired'), 0)::bigint,
    null
  from skipmq.queue_delta d
  group by 1, 2
) p
left join skipmq.generation g on g.queue_id = p.queue_id;
