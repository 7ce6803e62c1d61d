-- The 20 groups of each queue with the longest total time in flight (from first receive to settlement).
--
-- `share` is of the queue's messages, `in_flight_share` of their time in flight; `wait_p50` to `wait_p99` are the seconds
-- from send to first receive; `even_share` is 1 / `groups`, the groups of the queue. `noisy` is the rule of fair queues
-- in skipmq.mark_noisy, of at least ten groups: more than a tenth of the time in flight, and at least 30 messages.
with counted as (
  select
    account, region, queue, fifo, group_id,
    count(*) as messages,
    sum(bytes) as bytes,
    coalesce(sum(receive_to_settle), 0) as in_flight_seconds,
    sort_array(collect_list(send_to_receive)) as waits,
    count(*) filter (where receive_count > 1) as redelivered,
    count(*) filter (where outcome = 'dead-lettered') as dead_lettered
  from settled
  where group_id is not null
  group by account, region, queue, fifo, group_id
),
shared as (
  select
    *,
    count(*) over (partition by account, region, queue) as groups,
    messages / sum(messages) over (partition by account, region, queue) as share,
    coalesce(try_divide(in_flight_seconds, sum(in_flight_seconds) over (partition by account, region, queue)), 0)
      as in_flight_share,
    row_number() over (
      partition by account, region, queue order by in_flight_seconds desc, messages desc, group_id
    ) as place
  from counted
)
select /*+ repartition(1) */
  account, region, queue, fifo, group_id, messages, share, bytes, in_flight_seconds, in_flight_share,
  get(waits, cast(ceil(size(waits) * 0.50) as int) - 1) as wait_p50,
  get(waits, cast(ceil(size(waits) * 0.95) as int) - 1) as wait_p95,
  get(waits, cast(ceil(size(waits) * 0.99) as int) - 1) as wait_p99,
  redelivered, dead_lettered, groups,
  1 / groups as even_share,
  in_flight_share > 0.1 and messages >= 30 and groups >= 10 as noisy
from shared
where place <= 20
order by account, region, queue, place
