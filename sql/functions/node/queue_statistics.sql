-- Does: returns for up to p_limit queues after p_offset the totals since each was created or purged, the rates per second
--   over the last one to two minutes, the current numbers of messages, and of one account and region what is wrong
--   (queue_troubles). Ordered by name or a number: names ascending, numbers descending, unless p_descending is given. One
--   further row, whose queue is null, has the sums of all other matches, and their number in `queues`.
-- Called by: /metrics, the ListQueueStatistics action, `skipmq queue stats`, `skipmq top`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_count_pkey, queue_minute_pkey, queue_dead_letter, and those of
--   count_messages, oldest_message, repeated_messages, held_back and queue_troubles; paused_group_pkey.
-- Routed: to all partitions; paged by sort,
--   case when p_order <> 'name' then messages * case when coalesce(p_descending, true) then -1 else 1 end end,
--   case when p_order = 'name' and p_descending then queue end desc, queue, account, region.
--
-- A null p_account or p_region matches all; p_search is a part of the name. p_filter is backlog, failing, not-received,
-- dead-letters or fifo; p_tag a tag, or its key and value as key=value. Visible, in-flight and delayed messages and the
-- oldest are determined only for the queues returned, unless they are the order, so that the cost does not grow with the
-- waiting messages.
create function skipmq.queue_statistics(
  p_account text default null, p_region text default null, p_search text default '', p_order text default 'name',
  p_limit integer default 100, p_offset integer default 0, p_descending boolean default null,
  p_filter text default null, p_tag text default null
) returns table (
  account text, region text, queue text, queue_id bigint, queues bigint, messages bigint, visible bigint,
  in_flight bigint, delayed bigint, oldest float8, expires_in float8, sent bigint, bytes_sent bigint, received bigint,
  empty_receives bigint, deleted bigint, expired bigint, dead_lettered bigint, redriven bigint, moved_in bigint,
  send_rate float8, receive_rate float8, delete_rate float8,
  fifo boolean, policy text, dead_letters boolean, trouble text, paused boolean,
  paused_by text, paused_for float8, repeated bigint, held boolean, paused_groups bigint, sort float8
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
  with recent as materialized (
    select
      m.queue_id, sum(m.sent) filter (where m.minute >= v_minute - interval '1 minute') as sent,
      sum(m.received) filter (where m.minute >= v_minute - interval '1 minute') as received,
      sum(m.deleted) filter (where m.minute >= v_minute - interval '1 minute') as deleted,
      sum(m.received) filter (where m.minute >= v_minute - interval '10 minutes') as received_10,
      sum(m.received) as received_15, sum(m.dead_lettered) as dead_lettered_15,
      sum(m.deleted + m.dead_lettered) as ended_15
    from skipmq.queue_minute m
    where m.minute >= v_minute - case when p_filter is null then interval '1 minute' else interval '15 minutes' end
    group by m.queue_id
  ), troubles as materialized (
    select t.queue, min(t.rank) as rank, (array_agg(t.trouble order by t.rank))[1] as trouble
    from skipmq.queue_troubles(p_account, p_region, 1000) t
    -- Not for the sums alone.
    where p_account is not null and p_region is not null and p_limit > 0
    group by t.queue
  ), matching as materialized (
    select
      q.account, q.region, q.name, q.queue_id, q.fifo, q.policy, q.message_retention_period as retention, q.paused, q.limited,
      q.paused_by, q.paused_at, coalesce(greatest(c.messages, 0), 0) as messages,
      coalesce(c.sent, 0) as sent, coalesce(c.bytes_sent, 0) as bytes_sent, coalesce(c.received, 0) as received,
      coalesce(c.empty_receives, 0) as empty_receives, coalesce(c.deleted, 0) as deleted,
      coalesce(c.expired, 0) as expired, coalesce(c.dead_lettered, 0) as dead_lettered,
      coalesce(c.redriven, 0) as redriven, coalesce(c.moved_in, 0) as moved_in,
      coalesce(r.sent / v_seconds, 0)::float8 as send_rate, coalesce(r.received / v_seconds, 0)::float8 as receive_rate,
      coalesce(r.deleted / v_seconds, 0)::float8 as delete_rate, d.dead_letters, t.trouble, t.rank
    from skipmq.queue q
    left join skipmq.queue_count c on c.queue_id = q.queue_id
    left join recent r on r.queue_id = q.queue_id
    left join troubles t on t.queue = q.name and q.account = p_account and q.region = p_region
    cross join lateral (
      select exists (
        select from skipmq.queue s
        where s.dead_letter_account = q.account and s.region = q.region and s.dead_letter_name = q.name) as dead_letters
    ) d
    where (p_account is null or q.account = p_account) and (p_region is null or q.region = p_region)
      and (p_search = '' or strpos(lower(q.name), lower(p_search)) > 0)
      and (p_tag is null or case when strpos(p_tag, '=') > 0
        then q.tags ->> split_part(p_tag, '=', 1) = substr(p_tag, strpos(p_tag, '=') + 1) else q.tags ? p_tag end)
      and case p_filter
        when 'backlog' then c.messages > 0 and not d.dead_letters
        when 'failing' then r.dead_lettered_15 > 0 or r.received_15 > greatest(20, 3 * r.ended_15)
        when 'not-received' then c.messages > 0 and coalesce(r.received_10, 0) = 0 and not d.dead_letters
        when 'dead-letters' then d.dead_letters
        when 'fifo' then q.fifo
        else true end
  ), sorted as materialized (
    select m.*, v_sign * case p_order
      when 'messages' then m.messages
      when 'rate' then m.send_rate + m.delete_rate
      when 'sent' then m.send_rate
      when 'deleted' then m.delete_rate
      when 'dead-lettered' then m.dead_lettered
      when 'expired' then m.expired
      when 'trouble' then coalesce(10 - m.rank, 0)
      when 'oldest' then case when m.messages > 0 then coalesce(skipmq.try_oldest_message(m.queue_id, m.fifo), 0) else 0 end
      when 'visible' then case when m.messages > 0 then (select n.visible from skipmq.try_count_messages(m.queue_id, m.messages) n) else 0 end
      when 'in-flight' then case when m.messages > 0 then (select n.in_flight from skipmq.try_count_messages(m.queue_id, m.messages) n) else 0 end
      when 'delayed' then case when m.messages > 0 then (select n.delayed from skipmq.try_count_messages(m.queue_id, m.messages) n) else 0 end
      end::float8 as sort
    from matching m
  ), given as materialized (
    select m.*, row_number() over () as place
    from (
      select m.*
      from sorted m
      order by
        m.sort, case when p_order <> 'name' then m.messages * v_sign end,
        case when p_order = 'name' and p_descending then m.name end desc, m.name, m.account, m.region
      limit p_limit offset p_offset
    ) m
  )
  (
    select
      g.account, g.region, g.name, g.queue_id, 1::bigint, g.messages, n.visible, n.in_flight, n.delayed,
      o.oldest, case when o.oldest is not null then greatest(g.retention - o.oldest, 0) end,
      g.sent, g.bytes_sent, g.received, g.empty_receives, g.deleted, g.expired, g.dead_lettered, g.redriven, g.moved_in,
      g.send_rate, g.receive_rate, g.delete_rate, g.fifo, g.policy, g.dead_letters, g.trouble, g.paused, g.paused_by,
      extract(epoch from v_now - g.paused_at)::float8,
      case when o.oldest > 600 then (select p.messages from skipmq.repeated_messages(g.queue_id, g.fifo) p) end,
      g.limited and exists (
        select from skipmq.held_back(g.queue_id, case when o.oldest > 600 then 'behind' when o.oldest > 60 then 'receivers-idle' end, g.receive_rate) h
        where h.trouble in ('group-paused', 'limited')),
      case when g.limited then (select count(*) from skipmq.paused_groups(g.queue_id, null) p) else 0 end, g.sort
    from given g
    cross join lateral skipmq.try_count_messages(g.queue_id, g.messages) n
    cross join lateral (
      select case when n.visible + n.in_flight > 0 then skipmq.try_oldest_message(g.queue_id, g.fifo) end as oldest
      -- Merged into the query it would be evaluated twice.
      offset 0
    ) o
    order by g.place
  )
  union all
  select
    null, null, null, null, count(*), coalesce(sum(m.messages), 0)::bigint, null, null, null, null, null,
    coalesce(sum(m.sent), 0)::bigint, coalesce(sum(m.bytes_sent), 0)::bigint, coalesce(sum(m.received), 0)::bigint,
    coalesce(sum(m.empty_receives), 0)::bigint, coalesce(sum(m.deleted), 0)::bigint,
    coalesce(sum(m.expired), 0)::bigint, coalesce(sum(m.dead_lettered), 0)::bigint,
    coalesce(sum(m.redriven), 0)::bigint, coalesce(sum(m.moved_in), 0)::bigint,
    coalesce(sum(m.send_rate), 0), coalesce(sum(m.receive_rate), 0), coalesce(sum(m.delete_rate), 0),
    null, null, null, null, null, null, null, null, null, null, null
  from matching m
  where not exists (select from given g where g.queue_id = m.queue_id);
end $$;
