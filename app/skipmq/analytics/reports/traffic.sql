-- Arrivals and settlements, and their bytes, by queue and step (as of `latency.sql`).
--
-- `arrived_bytes` and `settled_bytes` are of bodies and attributes, `body_p50`, `body_p95` and `body_max` of the bodies
-- of arrivals. A dead letter arrives in a dead-letter queue when it is moved there.
with arrivals as (
  select
    account, region, queue,
    timestamp_micros(unix_micros(arrived_at) div :step * :step) as since,
    count(*) as arrived,
    sum(bytes) as arrived_bytes,
    sort_array(collect_list(body_bytes)) as bodies,
    max(body_bytes) as body_max
  from active
  group by account, region, queue, since
),
settlements as (
  select
    account, region, queue,
    timestamp_micros(unix_micros(settled_at) div :step * :step) as since,
    count(*) filter (where outcome = 'deleted') as deleted,
    count(*) filter (where outcome = 'expired') as expired,
    count(*) filter (where outcome = 'purged') as purged,
    count(*) filter (where outcome = 'dead-lettered') as dead_lettered,
    count(*) filter (where outcome = 'redriven') as redriven,
    sum(bytes) as settled_bytes
  from active
  where settled_at is not null
  group by account, region, queue, since
)
select /*+ repartition(1) */
  account, region, queue, since,
  coalesce(arrived, 0) as arrived,
  coalesce(arrived_bytes, 0) as arrived_bytes,
  get(bodies, cast(ceil(size(bodies) * 0.50) as int) - 1) as body_p50,
  get(bodies, cast(ceil(size(bodies) * 0.95) as int) - 1) as body_p95,
  body_max,
  coalesce(deleted, 0) as deleted,
  coalesce(expired, 0) as expired,
  coalesce(purged, 0) as purged,
  coalesce(dead_lettered, 0) as dead_lettered,
  coalesce(redriven, 0) as redriven,
  coalesce(settled_bytes, 0) as settled_bytes
from arrivals
full join settlements using (account, region, queue, since)
order by account, region, queue, since
