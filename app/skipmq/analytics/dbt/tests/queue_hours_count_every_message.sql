-- As far as the table reaches, and as many days as the source still has.
with read as (
    select partition, max(last_xid) as last_xid
    from {{ ref('queue_hours') }}
    group by 1
),

stored as (
    select h.queue_id >> 57 as partition, count(*) as settled, date_trunc('day', min(h.settled_at)) as since
    from {{ source('skipmq', 'history') }} as h
    join read on read.partition = h.queue_id >> 57 and h.xid <= read.last_xid
    group by 1
),

counted as (
    select q.partition, sum(q.settled) as settled
    from {{ ref('queue_hours') }} as q
    join stored on stored.partition = q.partition and q.hour >= stored.since
    group by 1
)

select stored.partition, counted.settled, stored.settled as stored
from stored left join counted on counted.partition = stored.partition
where coalesce(counted.settled, 0) <> stored.settled
