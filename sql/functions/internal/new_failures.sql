-- Does: returns the kinds of failure among the messages of a dead-letter queue that arrived after p_since and that none of the
--   older ones has, of which the first and the last p_first are read: the queue they came from, how many did, and when the
--   first did; nothing where a damaged page keeps them from being read.
-- Called by: queue_troubles.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible; for FIFO message_enqueued.
--
-- Messages that were received in the dead-letter queue count as older ones.
create function skipmq.new_failures(
  p_queue_id bigint, p_fifo boolean, p_since timestamptz, p_first integer default 500
) returns table (kind text, source text, messages bigint, first timestamptz)
language plpgsql stable
as $$
#variable_conflict use_column
begin
  return query
  with standard as (
    select m.* from skipmq.message m
    where not p_fifo and m.queue_id = p_queue_id and m.group_no is null
  ), ordered as (
    select m.* from skipmq.message m
    where p_fifo and m.queue_id = p_queue_id and m.group_no is not null
  ), old as materialized (
    (select m.attributes from standard m where m.shard = 0 and m.visible_at <= p_since order by m.visible_at limit p_first)
    union all
    (select m.attributes from standard m where m.shard = 0 and m.visible_at <= p_since order by m.visible_at desc limit p_first)
    union all
    (select m.attributes from standard m where m.shard = 2 order by m.visible_at limit p_first)
    union all
    (select m.attributes from ordered m where m.enqueued_at <= p_since order by m.enqueued_at limit p_first)
    union all
    (select m.attributes from ordered m where m.enqueued_at <= p_since order by m.enqueued_at desc limit p_first)
  ), new as materialized (
    (select m.attributes, m.dead_letter_source, m.visible_at as at
    from standard m where m.shard = 0 and m.visible_at > p_since order by m.visible_at desc limit p_first)
    union all
    (select m.attributes, m.dead_letter_source, m.enqueued_at
    from ordered m where m.enqueued_at > p_since order by m.enqueued_at desc limit p_first)
  )
  select n.kind, n.source, count(*), min(n.at)
  from (select skipmq.failure_kind(n.attributes) as kind, n.dead_letter_source as source, n.at from new n) n
  where n.kind is not null
    and not exists (select from old o where skipmq.failure_kind(o.attributes) = n.kind)
  group by n.kind, n.source;
exception
  when data_corrupted or index_corrupted or io_error then
    return;
end $$;
