-- Does: finds a queue by name; returns no row when it does not exist. One that is being moved to another partition has its
--   id there already.
-- Called by: every action on a queue, through the node's cache of a few seconds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, relocation_account_region_name_key.
-- Routed: by sql/router/, in one partition.
create function skipmq.get_queue(p_name text, p_account text, p_region text)
returns table (
  queue_id bigint, fifo boolean, attributes jsonb, tags jsonb,
  created_at timestamptz, modified_at timestamptz
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.queue_id, q.fifo, skipmq.queue_attributes(q), q.tags, q.created_at, q.modified_at
  from skipmq.queue q
  where q.account = p_account and q.region = p_region and q.name = p_name
  union all
  select l.new_queue_id, q.fifo, skipmq.queue_attributes(q), q.tags, q.created_at, q.modified_at
  from skipmq.relocation l
  cross join lateral jsonb_populate_record(null::skipmq.queue, l.queue) q
  where l.account = p_account and l.region = p_region and l.name = p_name
$$;
