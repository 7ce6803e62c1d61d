-- Does: what change_visibility does, for messages of a FIFO queue: with the first message of a group the
--   whole group becomes available sooner or later.
-- Called by: the ChangeMessageVisibility and ChangeMessageVisibilityBatch actions; SQL users.
-- Locks, in order: group rows by number, message rows by id.
-- Raises: nothing.
-- Relies on index: those of lock_groups, change_visibility and refresh_groups.
create function skipmq.change_fifo_visibility(
  p_queue_id integer,
  p_ids bigint[],
  p_receive_counts integer[],
  p_received_at timestamptz[],
  p_timeouts integer[],
  p_commit text default null
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_groups bigint[] := skipmq.lock_groups(p_queue_id, p_ids);
begin
  return query
  select c.place, c.outcome
  from skipmq.change_visibility(p_queue_id, p_ids, p_receive_counts, p_received_at, p_timeouts, p_commit) c;
  perform skipmq.refresh_groups(p_queue_id, v_groups);
end $$;
