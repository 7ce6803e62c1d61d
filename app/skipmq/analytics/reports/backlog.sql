-- Messages not settled at the end of each step of a period, by queue.
--
-- `at` is the end of the step or of the period, `seconds` the step's length; `came` and `went` are the messages that
-- arrived and were settled in the step, `waiting` those that are visible, delayed or in flight at `at`, and
-- `oldest_age_seconds` is the oldest one's time in the queue, 0 if there is none. The period from `:since` to `:until` has
-- `:steps` steps of `:step` microseconds, the last of which may exceed it. Without live messages, those that were not
-- settled when the history was read are missing.
with placed as (
  select
    account, region, queue, arrived_at,
    -- Steps are numbered from 0. What arrived before the period did so in step -1; what is settled after it, in `:steps`.
    greatest(cast(floor((unix_micros(arrived_at) - unix_micros(:since)) / :step) as bigint), -1) as arrival,
    coalesce(
      least(cast(floor((unix_micros(settled_at) - unix_micros(:since)) / :step) as bigint), :steps), :steps
    ) as departure
  from message
  where sent_at < :until and (settled_at is null or settled_at >= :since)
),
present as (
  select * from placed where arrival < :steps and departure >= 0
),
grid as (
  select account, region, queue, explode(sequence(cast(-1 as bigint), cast(:steps as bigint))) as step
  from (select distinct account, region, queue from present) as each_queue
),
arrivals as (
  select account, region, queue, arrival as step, count(*) as came
  from present
  group by account, region, queue, arrival
),
departures as (
  select account, region, queue, departure as step, count(*) as went, min(arrived_at) as oldest
  from present
  group by account, region, queue, departure
),
steps as (
  select
    account, region, queue, step,
    timestamp_micros(unix_micros(:since) + step * :step) as begins_at,
    least(timestamp_micros(unix_micros(:since) + (step + 1) * :step), :until) as at,
    coalesce(came, 0) as came,
    coalesce(went, 0) as went,
    oldest
  from grid
  left join arrivals using (account, region, queue, step)
  left join departures using (account, region, queue, step)
),
summed as (
  select
    *,
    sum(came - went) over (
      partition by account, region, queue order by step rows between unbounded preceding and current row
    ) as waiting,
    -- The oldest message at `at` is the first to arrive of those settled later, if it has arrived.
    min(oldest) over (
      partition by account, region, queue order by step rows between 1 following and unbounded following
    ) as oldest_later
  from steps
)
select /*+ repartition(1) */
  account, region, queue, at,
  (unix_micros(at) - unix_micros(begins_at)) / 1000000 as seconds,
  came, went, waiting,
  coalesce(greatest((unix_micros(at) - unix_micros(oldest_later)) / 1000000, 0), 0) as oldest_age_seconds
from summed
where step >= 0 and step < :steps
order by account, region, queue, step
