-- Messages deleted through each node, by queue and step (as of `latency.sql`); `unknown` are those deleted by SQL.
--
-- `per_second` is between the first and the last delete of the step; `processing_p50` to `processing_p99` are the seconds
-- from first receive to delete.
with times as (
  select
    account, region, queue,
    timestamp_micros(unix_micros(settled_at) div :step * :step) as since,
    coalesce(node, 'unknown') as consumer,
    count(*) as deleted,
    sum(bytes) as bytes,
    (unix_micros(max(settled_at)) - unix_micros(min(settled_at))) / 1000000 as seconds,
    sort_array(collect_list(receive_to_settle)) as works
  from settled
  where outcome = 'deleted'
  group by account, region, queue, since, consumer
)
select /*+ repartition(1) */
  account, region, queue, since, consumer as node, deleted, bytes,
  deleted / greatest(seconds, 1) as per_second,
  get(works, cast(ceil(size(works) * 0.50) as int) - 1) as processing_p50,
  get(works, cast(ceil(size(works) * 0.95) as int) - 1) as processing_p95,
  get(works, cast(ceil(size(works) * 0.99) as int) - 1) as processing_p99
from times
order by account, region, queue, since, node
