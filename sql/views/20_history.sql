-- Every settled message, with the name of its queue, which may be deleted. outcome is deleted, expired, purged,
-- dead-lettered (the message is in another queue) or redriven (a new message replaced it). attributes (JSON) and body are
-- set where the queue's history mode was full. An incremental reader reads windows of xid below the oldest running
-- transaction, pg_snapshot_xmin(pg_current_snapshot()), not `id > last`: ids are not in commit order.
create view skipmq_views.history as
select
  h.settled_at, h.sent_at, h.first_received_at, h.xid, h.id, h.queue_id, g.account, g.region, g.name as queue,
  g.name like '%.fifo' as fifo, h.receive_count, h.body_bytes, h.attribute_bytes,
  h.message_id::text as message_id, h.outcome::text as outcome, h.group_id, h.deduplication_id, h.sender, h.trace_header,
  h.node, h.attributes, h.body
from skipmq.history h
left join skipmq.generation g on g.queue_id = h.queue_id;
