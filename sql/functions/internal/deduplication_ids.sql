-- Does: returns the deduplication ids of messages: the given ones, and for messages without one the hash of the body where
--   the queue has content-based deduplication.
-- Called by: send_fifo_messages, for SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id.
create function skipmq.deduplication_ids(p_queue_id bigint, p_deduplication_ids text[], p_bodies text[]) returns text[]
language sql stable
as $$
  select array_agg(coalesce(u.deduplication_id, case when q.content_based_deduplication then
    encode(sha256(convert_to(u.body, 'UTF8')), 'hex') end) order by u.place)
  from skipmq.queue q
  cross join unnest(p_deduplication_ids, p_bodies) with ordinality u (deduplication_id, body, place)
  where q.queue_id = p_queue_id
$$;
