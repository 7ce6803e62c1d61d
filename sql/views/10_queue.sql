-- Every queue that is there, and every one that was: a row for each generation, since a purge begins a new
-- one. Of those that are over (retired_at) only the name is known, and how they ended (purged, deleted).
-- Times in seconds, sizes in bytes, tags as JSON.
create view skipmq_views.queue as
select
  g.queue_id, g.account, g.region, g.name as queue, g.name like '%.fifo' as fifo,
  g.created_at, g.retired_at, g.retired_as,
  coalesce(q.history_mode, g.history_mode) as history_mode,
  q.visibility_timeout, q.delay_seconds, q.maximum_message_size, q.message_retention_period,
  q.receive_message_wait_time_seconds, q.dead_letter_account, q.dead_letter_name, q.max_receive_count,
  q.replication_mode, q.tags::text as tags
from skipmq.generation g
left join skipmq.queue q on q.queue_id = g.queue_id;
