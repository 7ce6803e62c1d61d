-- The histogram of receive counts by queue, where 10 `receives` are 10 or more; `share` is of the queue's messages.
select /*+ repartition(1) */
  account, region, queue,
  least(receive_count, 10) as receives,
  count(*) as messages,
  count(*) / sum(count(*)) over (partition by account, region, queue) as share
from settled
where not dead_letter
group by account, region, queue, receives
order by account, region, queue, receives
