-- Outcomes, and the percentiles of `latency.sql`, by queue.
with times as (
  select
    account, region, queue,
    count(*) as settled,
    count(*) filter (where outcome = 'deleted') as deleted,
    count(*) filter (where outcome = 'expired') as expired,
    count(*) filter (where outcome = 'purged') as purged,
    count(*) filter (where outcome = 'dead-lettered') as dead_lettered,
    count(*) filter (where outcome = 'redriven') as redriven,
    sum(bytes) as bytes,
    sort_array(collect_list(send_to_receive) filter (where not dead_letter)) as waits,
    sort_array(collect_list(receive_to_settle) filter (where outcome = 'deleted' and not dead_letter)) as works,
    sort_array(collect_list(send_to_settle) filter (where outcome = 'deleted')) as stays
  from settled
  group by account, region, queue
)
select /*+ repartition(1) */
  account, region, queue, settled, deleted, expired, purged, dead_lettered, redriven, bytes,
  get(waits, cast(ceil(size(waits) * 0.50) as int) - 1) as send_to_receive_p50,
  get(waits, cast(ceil(size(waits) * 0.95) as int) - 1) as send_to_receive_p95,
  get(waits, cast(ceil(size(waits) * 0.99) as int) - 1) as send_to_receive_p99,
  get(works, cast(ceil(size(works) * 0.50) as int) - 1) as receive_to_delete_p50,
  get(works, cast(ceil(size(works) * 0.95) as int) - 1) as receive_to_delete_p95,
  get(works, cast(ceil(size(works) * 0.99) as int) - 1) as receive_to_delete_p99,
  get(stays, cast(ceil(size(stays) * 0.50) as int) - 1) as send_to_delete_p50,
  get(stays, cast(ceil(size(stays) * 0.95) as int) - 1) as send_to_delete_p95,
  get(stays, cast(ceil(size(stays) * 0.99) as int) - 1) as send_to_delete_p99
from times
order by account, region, queue
