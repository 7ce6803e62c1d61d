-- Does: returns for up to p_limit queues after p_offset the totals since each was created or purged, the rates per second
--   over the last one to two minutes, and the current numbers of messages. Ordered by name, messages, rate (sends and
--   deletes) or dead-lettered messages: names ascending, numbers descending, unless p_descending is given. One further
--   row, whose queue is null, has the sums of all other matches, and their number in `queues`.
-- Called by: /metrics, the ListQueueStatistics action, `skipmq queue stats`, `skipmq top`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_count_pkey, queue_minute_pkey, queue_dead_letter, and those of
--   count_messages and oldest_message.
-- Routed: to all partitions; paged by case p_order when 'messages' then messages when 'rate' then send_rate + delete_rate
--   when 'dead-lettered' then dead_lettered end * case when coalesce(p_descending, true) then -1 else 1 end,
--   case when p_order <> 'name' then messages * case when coalesce(p_descending, true) then -1 else 1 end end,
--   case when p_order = 'name' and p_descending then queue end desc, queue, account, region.
--
-- A null p_account or p_region matches all; p_search is a part of the name. Visible, in-flight and delayed messages and the
-- oldest are determined only for the queues returned, so that the cost does not grow with the waiting messages.
create function skipmq.queue_statistics(
  p_account text default null, p_region text default null, p_search text default '', p_order text default 'name',
  p_limit integer default 100, p_offset integer default 0, p_descending boolean default null
) returns table (
  account text, region text, queue text, queue_id integer, queues bigint, messages bigint, visible bigint,
  in_flight bigint, delayed bigint, oldest float8, sent bigint, bytes_sent bigint, received bigint,
  empty_receives bigint, deleted bigint, expired bigint, dead_lettered bigint, redriven bigint, moved_in bigint,
  send_rate float8, receive_rate float8, delete_rate float8,
  fifo boolean, policy text, dead_letters boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
-- A generic plan, for any order and search, would read queue_minute once for each queue.
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_minute timestamptz := date_trunc('minute', v_now);
  -- Orders numbers, which are multiplied by it, descending by default.
  v_sign integer := case when coalesce(p_descending, true) then -1 else 1 end;
  v_seconds float8 := 60 + extract(epoch from v_now - v_minute);
begin
  return query
  with matching as materialized (
    select
      q.account, q.region, q.name, q.queue_id, q.fifo, q.policy, coalesce(greatest(c.messages, 0), 0) as messages,
      coalesce(c.sent, 0) as sent, coalesce(c.bytes_sent, 0) as bytes_sent, coalesce(c.received, 0) as received,
      coalesce(c.empty_receives, 0) as empty_receives, coalesce(c.deleted, 0) as deleted,
      coalesce(c.expired, 0) as expired, coalesce(c.dead_lettered, 0) as dead_lettered,
      coalesce(c.redriven, 0) as redriven, coalesce(c.moved_in, 0) as moved_in,
      coalesce(r.sent / v_seconds, 0) as send_rate, coalesce(r.received / v_seconds, 0) as receive_rate,
      coalesce(r.deleted / v_seconds, 0) as delete_rate
    from skipmq.queue q
    left join skipmq.queue_count c on c.queue_id = q.queue_id
    left join (
      select
        m.queue_id, sum(m.sent)::float8 as sent, sum(m.received)::float8 as received, sum(m.deleted)::float8 as deleted
      from skipmq.queue_minute m
      where m.minute >= v_minute - interval '1 minute'
      group by m.queue_id
    ) r on r.queue_id = q.queue_id
    where (p_account is null or q.account = p_account) and (p_region is null or q.region = p_region)
      and (p_search = '' or strpos(lower(q.name), lower(p_search)) > 0)
  ), given as materialized (
    select m.*, row_number() over () as place
    from (
      select m.*
      from matching m
      order by
        case p_order
          when 'messages' then m.messages
          when 'rate' then m.send_rate + m.delete_rate
          when 'dead-lettered' then m.dead_lettered
        end * v_sign,
        case when p_order <> 'name' then m.messages * v_sign end,
        case when p_order = 'name' and p_descending then m.name end desc,
        m.name, m.account, m.region
      limit p_limit offset p_offset
    ) m
  )
  (
    select
      g.account, g.region, g.name, g.queue_id, 1::bigint, g.messages, n.visible, n.in_flight, n.delayed,
      case when n.visible + n.in_flight > 0 then skipmq.oldest_message(g.queue_id, g.fifo) end,
      g.sent, g.bytes_sent, g.received, g.empty_receives, g.deleted, g.expired, g.dead_lettered, g.redriven, g.moved_in,
      g.send_rate, g.receive_rate, g.delete_rate, g.fifo, g.policy,
      exists (
        select from skipmq.queue r
        where r.dead_letter_account = g.account and r.region = g.region and r.dead_letter_name = g.name)
    from given g
    cross join lateral skipmq.count_messages(g.queue_id) n
    order by g.place
  )
  union all
  select
    null, null, null, null, count(*), coalesce(sum(m.messages), 0)::bigint, null, null, null, null,
    coalesce(sum(m.sent), 0)::bigint, coalesce(sum(m.bytes_sent), 0)::bigint, coalesce(sum(m.received), 0)::bigint,
    coalesce(sum(m.empty_receives), 0)::bigint, coalesce(sum(m.deleted), 0)::bigint,
    coalesce(sum(m.expired), 0)::bigint, coalesce(sum(m.dead_lettered), 0)::bigint,
    coalesce(sum(m.redriven), 0)::bigint, coalesce(sum(m.moved_in), 0)::bigint,
    coalesce(sum(m.send_rate), 0), coalesce(sum(m.receive_rate), 0), coalesce(sum(m.delete_rate), 0),
    null, null, null
  from matching m
  where not exists (select from given g where g.queue_id = m.queue_id);
end $$;
