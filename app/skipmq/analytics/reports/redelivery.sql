-- Receives of messages by the queue that they were sent to: messages received at least once and more than once.
select /*+ repartition(1) */
  account, region, queue,
  count(*) filter (where receive_count >= 1) as received,
  count(*) filter (where receive_count > 1) as redelivered,
  try_divide(count(*) filter (where receive_count > 1), count(*) filter (where receive_count >= 1)) as redelivery_rate,
  avg(receive_count) filter (where receive_count >= 1) as receives_mean,
  max(receive_count) as receives_max,
  count(*) filter (where outcome = 'dead-lettered') as dead_lettered
from settled
-- The receives of a dead letter were in its source queue.
where not dead_letter
group by account, region, queue
order by account, region, queue
