-- Messages that wait at the end of each step of a period, by queue: those that no consumer has received yet.
--
-- `at` is the end of the step or of the period, `seconds` the step's length; `came` are the messages that arrived in the
-- step, `went` those that were received for the first time, or settled without; `waiting` are between the two at `at`,
-- `oldest_age_seconds` is the oldest one's time in the queue, 0 if there is none, and `unsettled` also has received ones.
-- `late` of those that went had waited for more than a minute, `longest_wait_seconds` the longest; `late_since` is the
-- first arrival of those, and of those that wait for more than a minute at `at`. A dead letter was received before it came
-- to its dead-letter queue. The period from `:since` to `:until` has `:steps` steps of `:step` microseconds, the last of
-- which may exceed it. Without live messages, those that were not settled when the history was read are missing.
with placed as (
  select
    account, region, queue, arrived_at, waited_until,
    (unix_micros(waited_until) - unix_micros(arrived_at)) / 1000000 as waited,
    -- Steps are numbered from 0. What happened before the period did so in step -1, what happens after it in `:steps`.
    greatest(cast(floor((unix_micros(arrived_at) - unix_micros(:since)) / :step) as bigint), -1) as arrival,
    greatest(least(coalesce(
      cast(floor((unix_micros(waited_until) - unix_micros(:since)) / :step) as bigint), :steps
    ), :steps), -1) as departure,
    coalesce(
      least(cast(floor((unix_micros(settled_at) - unix_micros(:since)) / :step) as bigint), :steps), :steps
    ) as settlement
  from message
  where sent_at < :until and (settled_at is null or settled_at >= :since)
),
present as (
  select * from placed where arrival < :steps and settlement >= 0
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
  select
    account, region, queue, departure as step, count(*) as went, min(arrived_at) as oldest,
    count(*) filter (where waited > 60) as late,
    min(arrived_at) filter (where waited > 60) as late_arrival,
    max(waited) as longest_wait
  from present
  group by account, region, queue, departure
),
settlements as (
  select account, region, queue, settlement as step, count(*) as settled
  from present
  group by account, region, queue, settlement
),
steps as (
  select
    account, region, queue, step,
    timestamp_micros(unix_micros(:since) + step * :step) as begins_at,
    least(timestamp_micros(unix_micros(:since) + (step + 1) * :step), :until) as at,
    coalesce(came, 0) as came,
    coalesce(went, 0) as went,
    coalesce(settled, 0) as settled,
    coalesce(late, 0) as late,
    coalesce(longest_wait, 0) as longest_wait,
    oldest, late_arrival
  from grid
  left join arrivals using (account, region, queue, step)
  left join departures using (account, region, queue, step)
  left join settlements using (account, region, queue, step)
),
summed as (
  select
    *,
    sum(came - went) over so_far as waiting,
    sum(came - settled) over so_far as unsettled,
    -- The oldest message at `at` is the first to arrive of those received later, if it has arrived.
    min(oldest) over (
      partition by account, region, queue order by step rows between 1 following and unbounded following
    ) as oldest_later
  from steps
  window so_far as (
    partition by account, region, queue order by step rows between unbounded preceding and current row
  )
)
select /*+ repartition(1) */
  account, region, queue, at,
  (unix_micros(at) - unix_micros(begins_at)) / 1000000 as seconds,
  came, went, waiting, unsettled,
  coalesce(greatest((unix_micros(at) - unix_micros(oldest_later)) / 1000000, 0), 0) as oldest_age_seconds,
  late,
  longest_wait as longest_wait_seconds,
  least(late_arrival, if(unix_micros(at) - unix_micros(oldest_later) > 60000000, oldest_later, null)) as late_since
from summed
where step >= 0 and step < :steps
order by account, region, queue, step
