-- Does: counts a queue's messages: visible, in flight (received, hidden) and delayed (never received).
-- Called by: the GetQueueAttributes action, `skipmq queue show`; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
create function skipmq.count_messages(p_queue_id integer)
returns table (visible bigint, in_flight bigint, delayed bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_retention interval;
begin
  select make_interval(secs => q.message_retention_period) into v_retention
  from skipmq.queue q where q.queue_id = p_queue_id;
  select count(*) into visible from skipmq.message m
  where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
    and m.visible_at > v_now - v_retention and m.visible_at <= v_now;
  select
    count(*) filter (where m.receive_count > m.receive_base),
    count(*) filter (where m.receive_count = m.receive_base)
  into in_flight, delayed
  from skipmq.message m
  where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null and m.visible_at > v_now;
  return next;
end $$;
