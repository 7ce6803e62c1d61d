-- Does: deletes messages of the named queue, standard or FIFO, as delete_message does one; returns for each, by its place in
--   the arrays, whether it was deleted: false when it was settled before or received again.
-- Called by: SQL users.
-- Locks, in order: those of granted_queue; message rows by id, or those of delete_fifo_messages.
-- Raises: what granted_queue raises; SQ001 when the queue does not exist, SQ005 when it is purged or deleted concurrently.
-- Relies on index: queue_pkey, message_pkey, and those of the functions it calls.
-- Routed: to the partition of p_queue.
create function skipmq.delete_received(
  p_queue text,
  p_ids bigint[],
  p_receive_counts integer[],
  p_message_ids uuid[],
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns boolean[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id bigint := skipmq.granted_queue('receive', p_queue, p_account, p_region);
  v_found bigint[];
begin
  if p_queue collate "C" like '%.fifo' then
    return array(
      select d.outcome = 'deleted'
      from skipmq.delete_fifo_messages(v_queue_id, p_ids, p_receive_counts, p_message_ids) d order by d.place);
  end if;
  -- Locked first, since delete_messages returns only their number.
  v_found := array(
    select r.place
    from (
      select u.*
      from unnest(p_ids, p_receive_counts, p_message_ids) with ordinality u (id, receive_count, message_id, place)
      order by u.id
    ) r
    cross join lateral (
      select from skipmq.message m
      where m.id = r.id and m.queue_id = v_queue_id and m.receive_count = r.receive_count and m.message_id = r.message_id
      for update
    ) m);
  perform skipmq.delete_messages(v_queue_id, p_ids, p_receive_counts, p_message_ids);
  return array(select p.place = any (v_found) from generate_series(1, cardinality(p_ids)) p (place) order by p.place);
end $$;
