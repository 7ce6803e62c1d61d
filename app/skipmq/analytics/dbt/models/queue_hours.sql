-- Each queue and hour (UTC): what was settled, how it ended, and how long it took.
{{ config(
    materialized='incremental',
    incremental_strategy='delete+insert',
    unique_key=['partition', 'account', 'region', 'queue', 'hour'],
) }}

select
    queue_id >> 57 as partition,
    account,
    region,
    queue,
    date_trunc('hour', settled_at) as hour,
    count(*) as settled,
    count(*) filter (where outcome = 'deleted') as deleted,
    count(*) filter (where outcome = 'dead-lettered') as dead_lettered,
    count(*) filter (where outcome = 'expired') as expired,
    count(*) filter (where receive_count > 1) as redelivered,
    sum(body_bytes) as body_bytes,
    percentile_disc(0.5) within group (
        order by extract(epoch from first_received_at - sent_at)
    ) as send_to_receive_p50,
    percentile_disc(0.99) within group (
        order by extract(epoch from first_received_at - sent_at)
    ) as send_to_receive_p99,
    percentile_disc(0.99) within group (
        order by extract(epoch from settled_at - sent_at)
    ) filter (where outcome = 'deleted') as send_to_delete_p99,
    max(xid) as last_xid
from {{ source('skipmq', 'history') }}
where {{ unread() }}
group by 1, 2, 3, 4, 5
