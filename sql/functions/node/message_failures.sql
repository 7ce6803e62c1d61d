-- Does: groups the first p_first messages of a generation, in the order of peek_messages, by the kind of failure that a
--   consumer left with them (null: none) and by the queue that dead-lettered them (null: none); the largest groups first.
-- Called by: the ListMessageFailures action; SQL users.
-- Locks, in order: none.
-- Raises: SQ005 when the generation does not exist.
-- Routed: to the partition of p_queue_id.
-- Relies on index: queue_id, message_visible; for FIFO message_enqueued; queue_pkey.
create function skipmq.message_failures(p_queue_id bigint, p_first integer default 10000)
returns table (
  kind text, source text, source_exists boolean, messages bigint, oldest timestamptz, newest timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_horizon timestamptz;
begin
  select skipmq.clock() - make_interval(secs => q.message_retention_period) into v_horizon
  from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  return query
  select g.kind, g.source, skipmq.queue_of_arn(g.source) is not null, g.messages, g.oldest, g.newest
  from (
    select skipmq.failure_kind(m.attributes) as kind, m.dead_letter_source as source, count(*) as messages,
      min(m.sent_at) as oldest, max(m.sent_at) as newest
    from (
      (select m.attributes, m.dead_letter_source, m.sent_at, m.enqueued_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is null
      order by m.shard, m.visible_at
      limit p_first)
      union all
      (select m.attributes, m.dead_letter_source, m.sent_at, m.enqueued_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null
      order by m.enqueued_at
      limit p_first)
    ) m
    where m.enqueued_at > v_horizon
    group by 1, 2
  ) g
  order by g.messages desc, g.kind, g.source;
end $$;
