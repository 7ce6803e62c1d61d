-- Does: counts a queue's messages in flight (received and hidden), up to p_most.
-- Called by: count_messages, bound_in_flight.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_id, message_visible; for FIFO message_group_available, message_group_order.
create function skipmq.count_in_flight(p_queue_id integer, p_most integer default 120000) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_count integer;
begin
  if (select q.fifo from skipmq.queue q where q.queue_id = p_queue_id) then
    -- Received messages are at the front of their group.
    select count(*) into v_count
    from (
      select
      from (
        (select g.group_no, g.first_number
         from skipmq.message_group g
         where g.queue_id = p_queue_id and g.available_at > v_now)
        union all
        -- When the first message of a group was made visible again, later ones may still be in flight.
        (select g.group_no, g.first_number
         from skipmq.message_group g
         where g.queue_id = p_queue_id and g.available_at <= v_now
         order by g.available_at desc
         limit 1000)
      ) g
      cross join lateral (
        with recursive received as (
          (select m.sequence_number, m.visible_at, m.receive_count > m.receive_base as received
           from skipmq.message m
           where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number >= g.first_number
           order by m.sequence_number
           limit 1)
          union all
          select e.*
          from received r
          cross join lateral (
            select m.sequence_number, m.visible_at, m.receive_count > m.receive_base
            from skipmq.message m
            where m.queue_id = p_queue_id and m.group_no = g.group_no and m.sequence_number > r.sequence_number
            order by m.sequence_number
            limit 1
          ) e
          where r.received
        )
        select from received r where r.received and r.visible_at > v_now
      ) m
      limit p_most
    ) f;
  else
    select count(*) into v_count
    from (
      select
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = any ('{0,1,2}') and m.group_no is null and m.visible_at > v_now
        and m.receive_count > m.receive_base
      limit p_most
    ) f;
  end if;
  return v_count;
end $$;
