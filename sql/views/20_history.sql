-- Every settled message, with the name of its queue, which may be gone. outcome is deleted, expired, purged,
-- dead-lettered (then it lives on in another queue) or redriven (then another message stands for it). attributes (JSON) and body are there where the queue's
-- history mode was full. An incremental reader takes windows of xid below the oldest open transaction,
-- pg_snapshot_xmin(pg_current_snapshot()), and never `id > last`: ids are not in the order of commits.
create view skipmq_views.history as
select
  h.settled_at, h.sent_at, h.first_received_at, h.xid, h.id, h.queue_id, g.account, g.region, g.name as queue,
  g.name like '%.fifo' as fifo, h.receive_count, h.body_bytes, h.attribute_bytes,
  h.message_id::text as message_id, h.outcome, h.group_id, h.deduplication_id, h.sender, h.trace_header,
  h.node, h.attributes, h.body
from skipmq.history h
left join skipmq.generation g on g.queue_id = h.queue_id;
