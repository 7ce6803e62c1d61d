-- Every unsettled message. retired: its queue was purged or deleted; it can no longer be received, and will soon be in the
-- history. receive_count is the count that receivers get. Query this view rarely and briefly: vacuum cannot remove
-- messages while the snapshot is held.
create view skipmq_views.message as
select
  m.visible_at, m.sent_at, m.enqueued_at, m.first_received_at, m.id, m.queue_id, g.account, g.region,
  g.name as queue, g.name like '%.fifo' as fifo, g.retired_at is not null as retired,
  m.receive_count - m.receive_base as receive_count, octet_length(m.body) as body_bytes,
  coalesce(octet_length(m.attributes), 0) as attribute_bytes, m.message_id::text as message_id,
  m.sequence_number, m.group_id, m.deduplication_id, m.sender, m.trace_header, m.dead_letter_source,
  m.attributes, m.body
from skipmq.message m
join skipmq.generation g on g.queue_id = m.queue_id;
