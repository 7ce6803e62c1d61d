-- When each queue will be empty, by a linear extrapolation of its backlog.
--
-- `in_per_second` and `out_per_second` are of `recent_seconds`: the last ten minutes, and at least three steps.
-- `drains_in_seconds` and `drained_at` are null if the backlog does not shrink.
with steps as (
  select
    *,
    row_number() over (partition by account, region, queue order by at desc) as steps_ago,
    (unix_micros(max(at) over (partition by account, region, queue)) - unix_micros(at)) / 1000000 as seconds_ago
  from backlog
),
recent as (
  select
    account, region, queue,
    max(at) as at,
    max_by(waiting, at) as waiting,
    max_by(oldest_age_seconds, at) as oldest_age_seconds,
    sum(seconds) as recent_seconds,
    sum(came) / sum(seconds) as in_per_second,
    sum(went) / sum(seconds) as out_per_second
  from steps
  where steps_ago <= 3 or seconds_ago < 600
  group by account, region, queue
),
extrapolated as (
  select
    *,
    case
      when waiting = 0 then 0
      when out_per_second > in_per_second then waiting / (out_per_second - in_per_second)
    end as drains_in_seconds
  from recent
)
select /*+ repartition(1) */
  *, timestamp_micros(unix_micros(at) + cast(floor(drains_in_seconds * 1000000) as bigint)) as drained_at
from extrapolated
order by account, region, queue
