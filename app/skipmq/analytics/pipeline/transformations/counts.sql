-- The messages of each queue that were deleted or dead-lettered since a time: those that the database has counted, and
-- those in bronze. `unread` are those that this run could not see. Messages settled in the minute before (`edge`) may be
-- in the counters of the next one; `erased` messages were counted, and are in no table.
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

-- Fails, and the run with it, if a row of `counts` is not as expected, or if silver lacks a row of bronze or has it twice.
create materialized view expectations as
with violated as (
  select
    concat(queue, ' has ', bronze + unread, ' ', outcome, ' messages in bronze, and the database counted ', counted) as text
  from counts
  where not kept
  union all
  select concat('bronze has ', bronze.messages, ' rows, and silver ', silver.messages) as text
  from (select count(*) as messages from bronze) bronze cross join (select count(*) as messages from silver) silver
  where bronze.messages <> silver.messages
)
select if(count(*) = 0, current_timestamp(), raise_error(concat('expectation violated: ', array_join(collect_list(text), '; '))))
  as kept_at
from violated;
