-- Does: lists the ARNs of the existing queues that the first p_limit messages of a dead-letter queue came from.
-- Called by: nodes that verify signatures, before a redrive without a destination.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible, message_group_order, queue_pkey.
-- Routed: to the partition of p_source_arn.
create function skipmq.dead_letter_origins(p_source_arn text, p_limit integer default 100000) returns setof text
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  with queue as materialized (
    select skipmq.queue_of_arn(p_source_arn) as id
  ),
  origin as (
    select m.dead_letter_source as arn
    from (
      (select m.dead_letter_source
      from skipmq.message m
      where m.queue_id = (select q.id from queue q) and m.group_no is null
      limit p_limit)
      union all
      (select m.dead_letter_source
      from skipmq.message m
      where m.queue_id = (select q.id from queue q) and m.group_no is not null
      limit p_limit)
    ) m
    group by m.dead_letter_source
  )
  select o.arn from origin o where skipmq.queue_of_arn(o.arn) is not null order by o.arn
$$;
