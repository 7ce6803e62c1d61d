select account, region, queue, hour
from {{ ref('queue_hours') }}
group by 1, 2, 3, 4
having count(*) > 1
