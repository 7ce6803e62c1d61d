-- Does: returns the messages that arrived last in a queue, newest first, without receiving them: up to p_limit since
--   p_since, with the first p_characters characters of their bodies.
-- Called by: the console, `skipmq queue tail`.
-- Locks, in order: none.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: queue_id, message_visible; for FIFO message_enqueued.
-- Routed: to the partition of p_queue_id.
--
-- It reads up to 500 entries backwards from each end of the index: visible messages by the time at which they became
-- visible, hidden ones by the time at which they will. It does not return a message that was received and deleted between
-- two calls, and may miss one where very many are in flight. Delayed messages are included.
create function skipmq.newest_messages(
  p_queue_id bigint, p_since timestamptz default null, p_limit integer default 50, p_characters integer default 2048
) returns table (
  id bigint, came_at timestamptz, state text, message_id uuid, group_id text, characters integer, body text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_queue skipmq.queue;
  v_since timestamptz;
begin
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  v_since := greatest(p_since, v_now - make_interval(secs => v_queue.message_retention_period));
  if v_queue.fifo then
    return query
    select m.id, m.enqueued_at, case when m.visible_at <= v_now then 'visible'
      when m.receive_count = m.receive_base then 'delayed' else 'in-flight' end,
      m.message_id, m.group_id, length(m.body), left(m.body, p_characters)
    from skipmq.message m
    where m.queue_id = p_queue_id and m.group_no is not null and m.enqueued_at > v_since
    order by m.enqueued_at desc
    limit p_limit;
    return;
  end if;
  return query
  select n.id, n.came_at, n.state, n.message_id, n.group_id, length(n.body), left(n.body, p_characters)
  from (
    select e.*, case when e.visible_at <= v_now then 'visible'
        when e.receive_count = e.receive_base then 'delayed' else 'in-flight' end as state,
      -- A dead-lettered message became visible when it was moved here; it keeps its receive count and its sent_at.
      case
        when e.visible_at <= v_now and (e.receive_count = e.receive_base or e.dead_letter_source is not null)
          then e.visible_at
        else e.sent_at end as came_at
    from unnest(skipmq.shards(p_queue_id)) s (shard)
    cross join (values (v_since, v_now), (v_now, 'infinity'::timestamptz)) r (above, most)
    cross join lateral (
      select m.*
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = s.shard and m.visible_at > r.above and m.visible_at <= r.most
        and m.group_no is null
      order by m.visible_at desc
      limit 500
    ) e
  ) n
  where n.came_at > v_since
  order by n.came_at desc, n.id desc
  limit p_limit;
end $$;
