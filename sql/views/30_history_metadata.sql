-- The history without user content: neither attributes nor body.
create view skipmq_views.history_metadata as
select
  h.settled_at, h.sent_at, h.first_received_at, h.xid, h.id, h.queue_id, g.account, g.region, g.name as queue,
  g.name like '%.fifo' as fifo, h.receive_count, h.body_bytes, h.attribute_bytes,
  h.message_id::text as message_id, h.outcome::text as outcome, h.group_id, h.deduplication_id, h.sender, h.trace_header,
  h.node
from skipmq.history h
left join skipmq.generation g on g.queue_id = h.queue_id;
