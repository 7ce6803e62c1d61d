-- Does: lists the queues of an account and region whose names contain p_search, in pages, each with the counts of its
--   messages; matches is how many there are on all pages. p_order is name, or messages: those with most first.
-- Called by: the ListQueueCounts action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_delta_at, queue_count_pkey.
--
-- By messages queues are in the order of their sums, in which messages past retention still count: it costs
-- milliseconds for 10,000 queues, where to count each would take seconds. Only those of the page are counted.
create function skipmq.list_queue_counts(
  p_account text,
  p_region text,
  p_search text default '',
  p_order text default 'name',
  p_descending boolean default false,
  p_offset integer default 0,
  p_limit integer default 50
) returns table (
  name text,
  fifo boolean,
  policy text,
  dead_letters boolean,
  visible bigint,
  in_flight bigint,
  delayed bigint,
  matches bigint
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  with changed as materialized (
    select d.queue_id, sum(d.change) as change
    from skipmq.queue_delta d
    where p_order = 'messages' and d.at >= (select c.counted_to - interval '10 seconds' from skipmq.cluster c)
    group by d.queue_id
  ), found as materialized (
    select
      q.name, q.queue_id, q.fifo, q.policy, count(*) over () as matches,
      row_number() over (
        order by
          case when p_order = 'messages' then
            (coalesce(s.messages, 0) + coalesce(d.change, 0)) * case when p_descending then -1 else 1 end
          end,
          case when p_order = 'name' and p_descending then q.name end desc,
          q.name
      ) as place
    from skipmq.queue q
    left join skipmq.queue_count s on s.queue_id = q.queue_id
    left join changed d on d.queue_id = q.queue_id
    where q.account = p_account and q.region = p_region and strpos(lower(q.name), lower(p_search)) > 0
    order by place
    offset p_offset
    limit p_limit
  )
  select
    f.name, f.fifo, f.policy,
    exists (
      select from skipmq.queue r
      where r.dead_letter_account = p_account and r.region = p_region and r.dead_letter_name = f.name),
    c.visible, c.in_flight, c.delayed, f.matches
  from found f
  cross join lateral skipmq.count_messages(f.queue_id) c
  order by f.place
$$;
