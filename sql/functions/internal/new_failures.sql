-- Does: returns the kinds of failure of a dead-letter queue's messages that first came after p_since: the queue they came from,
--   how many of the last p_first messages, and when the first did; nothing where a damaged page keeps them from being read.
-- Called by: queue_troubles.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: known_failure_first, message_pkey, message_visible; for FIFO message_enqueued.
--
-- A kind is named while its first message or one of the last p_first is there. Messages that were received in the dead-letter
-- queue are not among the last ones.
create function skipmq.new_failures(
  p_queue_id bigint, p_fifo boolean, p_since timestamptz, p_first integer default 500
) returns table (kind text, source text, messages bigint, first timestamptz)
language plpgsql stable
as $$
#variable_conflict use_column
begin
  if not exists (select from skipmq.known_failure k where k.queue_id = p_queue_id and k.first_at > p_since) then
    return;
  end if;
  return query
  with known as materialized (
    select k.kind, k.first_at, k.first_id
    from skipmq.known_failure k
    where k.queue_id = p_queue_id and k.first_at > p_since
    order by k.first_at desc
    limit p_first
  ), found as materialized (
    select distinct on (m.id) m.id, skipmq.failure_kind(m.attributes) as kind, m.dead_letter_source as source
    from (
      (select m.id, m.attributes, m.dead_letter_source
      from unnest(skipmq.shards(p_queue_id)) s (shard)
      cross join lateral (
        select m.id, m.attributes, m.dead_letter_source, m.visible_at from skipmq.message m
        where not p_fifo and m.queue_id = p_queue_id and m.group_no is null and m.shard = s.shard and m.visible_at > p_since
        order by m.visible_at desc limit p_first) m
      where s.shard <> 2 and s.shard not between 20 and 29
      order by m.visible_at desc limit p_first)
      union all
      (select m.id, m.attributes, m.dead_letter_source from skipmq.message m
      where p_fifo and m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > p_since
      order by m.enqueued_at desc limit p_first)
      union all
      select m.id, m.attributes, m.dead_letter_source
      from known k
      join skipmq.message m on m.queue_id = p_queue_id and m.id = k.first_id
    ) m
  )
  select f.kind, f.source, count(*), k.first_at
  from found f
  join known k on k.kind = hashtextextended(f.kind, 0)
  group by f.kind, f.source, k.first_at;
exception
  when data_corrupted or index_corrupted or io_error then
    return;
end $$;
