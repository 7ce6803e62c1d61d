-- A message that was redriven is another one in the queue to which it went.
select queue_id, id
from {{ source('skipmq', 'history') }}
group by 1, 2
having count(*) > 1
