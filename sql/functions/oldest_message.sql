-- Does: returns for how many seconds the first visible message has been in its queue (null: none is visible); in a FIFO
--   queue the message that arrived first.
-- Called by: queue_statistics.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible, message_enqueued.
create function skipmq.oldest_message(p_queue_id integer, p_fifo boolean) returns float8
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
begin
  if p_fifo then
    return (
      select extract(epoch from v_now - m.enqueued_at)
      from skipmq.message m
      where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > '-infinity'
      order by m.enqueued_at
      limit 1);
  end if;
  return (
    select max(extract(epoch from v_now - f.enqueued_at))
    from unnest('{0,2}'::smallint[]) s (shard)
    cross join lateral (
      select m.enqueued_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
        and m.visible_at > '-infinity' and m.visible_at <= v_now
      order by m.visible_at
      limit 1
    ) f);
end $$;
