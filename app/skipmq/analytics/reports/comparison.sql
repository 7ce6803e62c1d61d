-- A period, from `:since` to `:until`, and the one before, from `:before`, by queue: arrivals, outcomes, the 95th
-- percentile of seconds from send to delete, and the share of redelivered messages, as in the other reports.
--
-- Without data, counts are 0 and the others null.
with placed as (
  select
    *,
    arrived_at >= :since and arrived_at < :until as arrives,
    arrived_at >= :before and arrived_at < :since as arrives_before,
    coalesce(settled_at >= :since and settled_at < :until, false) as ends,
    coalesce(settled_at >= :before and settled_at < :since, false) as ends_before
  from message
),
measured as (
  select
    account, region, queue,
    count(*) filter (where arrives) as arrived,
    count(*) filter (where ends and outcome = 'deleted') as deleted,
    count(*) filter (where ends and outcome = 'dead-lettered') as dead_lettered,
    sort_array(collect_list(send_to_settle) filter (where ends and outcome = 'deleted')) as stays,
    count(*) filter (where ends and not dead_letter and receive_count >= 1) as received,
    count(*) filter (where ends and not dead_letter and receive_count > 1) as redelivered,
    count(*) filter (where arrives_before) as arrived_before,
    count(*) filter (where ends_before and outcome = 'deleted') as deleted_before,
    count(*) filter (where ends_before and outcome = 'dead-lettered') as dead_lettered_before,
    sort_array(collect_list(send_to_settle) filter (where ends_before and outcome = 'deleted')) as stays_before,
    count(*) filter (where ends_before and not dead_letter and receive_count >= 1) as received_before,
    count(*) filter (where ends_before and not dead_letter and receive_count > 1) as redelivered_before
  from placed
  where arrives or arrives_before or ends or ends_before
  group by account, region, queue
)
select /*+ repartition(1) */
  account, region, queue,
  arrived, deleted, dead_lettered,
  get(stays, cast(ceil(size(stays) * 0.95) as int) - 1) as send_to_delete_p95,
  try_divide(redelivered, received) as redelivery_rate,
  arrived_before, deleted_before, dead_lettered_before,
  get(stays_before, cast(ceil(size(stays_before) * 0.95) as int) - 1) as send_to_delete_p95_before,
  try_divide(redelivered_before, received_before) as redelivery_rate_before
from measured
order by account, region, queue
