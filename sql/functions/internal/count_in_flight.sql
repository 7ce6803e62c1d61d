-- Does: counts a queue's messages in flight (received and hidden), up to p_most.
-- Called by: count_messages, bound_in_flight.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, message_visible, and those of fifo_in_flight.
create function skipmq.count_in_flight(p_queue_id bigint, p_most integer default 120000) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_count integer;
begin
  if (select q.fifo from skipmq.queue q where q.queue_id = p_queue_id) then
    select count(*) into v_count
    from (select from skipmq.fifo_in_flight(p_queue_id, v_now) limit p_most) f;
  else
    select count(*) into v_count
    from (
      select
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = any (skipmq.shards(p_queue_id)) and m.group_no is null and m.visible_at > v_now
        and m.receive_count > m.receive_base
      limit p_most
    ) f;
  end if;
  return v_count;
end $$;
