-- Every current and retired queue, with one row for each generation, since a purge starts a new one. A retired generation
-- (retired_at) has only its name, its history mode and how it ended (purged, deleted). Times in seconds, sizes in bytes,
-- tags and body_schema as JSON, the latter empty without a schema.
create view skipmq_views.queue as
select
  g.queue_id, g.account, g.region, g.name as queue, g.name like '%.fifo' as fifo,
  g.created_at, g.retired_at, g.retired_as,
  coalesce(q.history_mode, g.history_mode) as history_mode,
  q.visibility_timeout, q.delay_seconds, q.maximum_message_size, q.message_retention_period,
  q.receive_message_wait_time_seconds, q.dead_letter_account, q.dead_letter_name, q.max_receive_count,
  q.replication_mode, q.paused, q.tags::text as tags, q.body_schema, q.body_schema_mode
from skipmq.generation g
left join skipmq.queue q on q.queue_id = g.queue_id;
