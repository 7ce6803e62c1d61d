-- The messages of each queue that were deleted or dead-lettered since a time: those that the database has counted, and
-- those in the lake. `unread` came after its last export. Messages settled in the minute before (`edge`) may be in the
-- counters of the next one; `erased` messages of the queue were counted, and are in no table.
create materialized view counts as
with found as (
  select
    c.account, c.region, c.queue, c.queue_id, c.outcome, c.since, c.counted, c.unread, c.erased,
    count_if(b.settled_at >= c.since and b.xid < c.horizon) as bronze,
    count_if(b.settled_at < c.since) as edge
  from counters c
  left join bronze b
    on b.queue_id = c.queue_id and b.outcome = c.outcome and b.settled_at >= c.since - interval 1 minute
  group by all
)
select
  *,
  bronze + unread <= counted and counted <= bronze + unread + edge + erased as kept
from found;

-- Fails, and the run with it, if a row of `counts` is not as expected.
create materialized view expectations as
with violated as (
  select
    concat(queue, ' has ', bronze + unread, ' ', outcome, ' messages in bronze, and the database counted ', counted) as text
  from counts
  where not kept
)
select if(count(*) = 0, current_timestamp(), raise_error(concat('expectation violated: ', array_join(collect_list(text), '; '))))
  as kept_at
from violated;
