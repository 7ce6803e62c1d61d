-- Hours before the last: in that one, messages may have been settled since the table was made.
with counted as (
    select sum(settled) as settled
    from {{ ref('queue_hours') }}
    where hour < (select max(hour) from {{ ref('queue_hours') }})
),

stored as (
    select count(*) as settled
    from {{ source('skipmq', 'history') }}
    where settled_at < (select max(hour) from {{ ref('queue_hours') }})
)

select counted.settled, stored.settled as stored
from counted, stored
where coalesce(counted.settled, 0) <> stored.settled
