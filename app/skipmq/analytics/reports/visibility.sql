-- A recommendation of each queue's visibility timeout.
--
-- `queues` has the present `visibility_timeout` in seconds, null if it is unknown. `processing_p50` to `processing_p99`
-- are the seconds from first receive to delete of messages received once. `timed_out` messages were received again after
-- their timeout, `given_back` ones before it, because a consumer reset it. `timed_out_rate` is of all received messages.
-- Dead letters that timed out each time are only counted where others take long, or none was deleted at its first receive:
-- a message that no consumer can process is left to time out each time, too.
--
-- A receipt is void once its message was received again, so that processing that exceeds the timeout shows as deliveries
-- that timed out and not as a long processing time.
with counted as (
  select
    account, region, queue, visibility_timeout,
    receive_count > 1 and outcome <> 'dead-lettered' as redelivered,
    receive_to_settle >= (receive_count - 1) * visibility_timeout as has_expired,
    outcome = 'dead-lettered' and receive_to_settle >= receive_count * visibility_timeout as has_died,
    outcome, receive_count, receive_to_settle
  from settled
  left join queues using (account, region, queue)
  where not dead_letter
),
times as (
  select
    account, region, queue, visibility_timeout,
    count(*) filter (where outcome = 'deleted') as deleted,
    sort_array(collect_list(receive_to_settle) filter (where outcome = 'deleted' and receive_count = 1)) as works,
    count(*) filter (where redelivered and has_expired) as expired,
    count(*) filter (where has_died) as died,
    count(*) filter (where redelivered and not has_expired) as given_back,
    count(*) filter (where receive_count >= 1) as received,
    -- Usual timeouts in seconds, up to the 12 hours that SQS allows.
    array(1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200) as usual
  from counted
  group by account, region, queue, visibility_timeout
),
percentiles as (
  select
    account, region, queue, visibility_timeout, deleted,
    get(works, cast(ceil(size(works) * 0.50) as int) - 1) as processing_p50,
    get(works, cast(ceil(size(works) * 0.95) as int) - 1) as processing_p95,
    get(works, cast(ceil(size(works) * 0.99) as int) - 1) as processing_p99,
    expired, died, given_back, received, usual
  from times
),
measured as (
  select
    *,
    expired + if(coalesce(processing_p99 * 2 >= visibility_timeout, true), died, 0) as timed_out,
    -- With a safety margin over processing times. Processing that times out is not in these: raise by at least one step.
    if(processing_p99 is null, 0, coalesce(get(filter(usual, timeout -> timeout >= processing_p99 * 1.2), 0), 43200))
      as needed,
    coalesce(get(filter(usual, timeout -> timeout >= visibility_timeout * 1.5), 0), 43200) as next_timeout
  from percentiles
),
rated as (
  select *, try_divide(timed_out, received) as timed_out_rate from measured
),
advised as (
  select
    *,
    case
      when visibility_timeout is null or greatest(deleted, timed_out) < 100 then null
      -- Processing is as long as the timeout, or consumers die or stall.
      when timed_out_rate >= 0.005 and coalesce(processing_p99 * 2 >= visibility_timeout, true) then 'raise'
      when timed_out_rate >= 0.005 then 'investigate'
      when visibility_timeout >= 300 and visibility_timeout > needed * 10 then 'lower'
      else 'keep'
    end as advice
  from rated
)
select /*+ repartition(1) */
  account, region, queue, visibility_timeout, deleted, processing_p50, processing_p95, processing_p99,
  timed_out, given_back, timed_out_rate, advice,
  case advice
    when 'raise' then greatest(needed, next_timeout)
    when 'lower' then greatest(needed, 30)
    else visibility_timeout
  end as suggested_timeout
from advised
order by account, region, queue
