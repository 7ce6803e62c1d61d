-- Waiting and processing times by queue and step of settlement.
--
-- `since` is the beginning of the step; steps of `:step` microseconds are counted from 1970-01-01 00:00 UTC, so that
-- hours and days are aligned to the clock. The 50th, 95th and 99th percentiles are in seconds: send to receive of
-- received messages, the others of deleted ones. Receive means the first one, so that receive to delete includes
-- redeliveries. Dead letters were received in their source queue and count for send to delete only.
with times as (
  select
    account, region, queue,
    timestamp_micros(unix_micros(settled_at) div :step * :step) as since,
    count(*) as settled,
    count(*) filter (where outcome = 'deleted') as deleted,
    sort_array(collect_list(send_to_receive) filter (where not dead_letter)) as waits,
    sort_array(collect_list(receive_to_settle) filter (where outcome = 'deleted' and not dead_letter)) as works,
    sort_array(collect_list(send_to_settle) filter (where outcome = 'deleted')) as stays
  from settled
  group by account, region, queue, since
)
-- Percentiles are those of percentile_disc, which takes Spark ten times as long.
select /*+ repartition(1) */
  account, region, queue, since, settled, deleted,
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
order by account, region, queue, since
