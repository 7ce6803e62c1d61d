-- Does: returns a generation and those before it that were purged, the newest first, with when each was retired.
-- Called by: queue_minutes, queue_consumers, queue_troubles.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: generation_pkey, generation_name.
create function skipmq.generations(p_queue_id bigint) returns table (queue_id bigint, retired_at timestamptz)
language sql stable
as $$
  with named as materialized (
    select o.queue_id, o.retired_at, o.retired_as, o.created_at
    from skipmq.generation g
    join skipmq.generation o on o.account = g.account and o.region = g.region and o.name = g.name
    where g.queue_id = p_queue_id and o.created_at <= g.created_at
  )
  select n.queue_id, n.retired_at
  from named n
  where n.queue_id = p_queue_id or n.retired_as = 'purged' and not exists (
    select from named e where e.queue_id <> p_queue_id and e.retired_as <> 'purged' and e.created_at >= n.created_at)
  order by n.created_at desc
$$;
