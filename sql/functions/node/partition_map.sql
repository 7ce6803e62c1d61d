-- Does: returns the place of this database among partitions: its number (null where it is a router), how many there are, how
--   many there were when they were made, what identifies those that belong together (null: it is the only one), and in a
--   router their addresses, by number.
-- Called by: nodes, when they start, to run statements on a queue in its partition; `skipmq partitions`; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: by sql/router/.
create function skipmq.partition_map(
  out partition integer, out partitions integer, out homes integer, out map_id uuid, out addresses text[]
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.partition, c.partitions, c.homes, c.map_id, '{}'::text[] from skipmq.cluster c
$$;
