-- Hours in which 1 % of a queue's messages waited longer than a minute.
create materialized view slow_hours as
select account, region, queue, since as hour, settled, send_to_receive_p99, receive_to_delete_p99
from hourly_latency
where send_to_receive_p99 > 60
