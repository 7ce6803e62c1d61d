-- What all other reports read: a row for each message in each queue, settled or live (`settled_at` is null).
--
-- A dead letter keeps its ID, `sent_at`, `first_received_at` and receive count in its dead-letter queue, where it
-- arrives when the source queue settles it as dead-lettered. `dead_letter` is whether a message arrived by such a move,
-- `arrived_at` when it arrived. `waited_until` is its first receive, or its settlement without one: it is null while it
-- waits, and `arrived_at` for a dead letter, which was received before. `bytes` are of the body and attributes, times from
-- one event to another in seconds.
select
  account, region, queue, fifo, group_id, node, outcome, receive_count, body_bytes,
  body_bytes + attribute_bytes as bytes,
  sent_at, settled_at,
  coalesce(moved_from <> queue_id and (settled_at is null or moved_at <= settled_at), false) as dead_letter,
  if(dead_letter, moved_at, sent_at) as arrived_at,
  if(dead_letter, moved_at, coalesce(first_received_at, settled_at)) as waited_until,
  (unix_micros(first_received_at) - unix_micros(sent_at)) / 1000000 as send_to_receive,
  (unix_micros(settled_at) - unix_micros(first_received_at)) / 1000000 as receive_to_settle,
  (unix_micros(settled_at) - unix_micros(sent_at)) / 1000000 as send_to_settle
from history
left join moves using (id)
