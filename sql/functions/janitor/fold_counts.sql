-- Does: adds the pending changes of message counts to the sums and to the current minute; returns the number of changes
--   folded. Minutes are kept for six hours, and then as periods of ten minutes for seven days.
-- Called by: the janitor.
-- Locks, in order: row of the job (does nothing when it is locked), changes by time, sums by queue_id.
-- Raises: nothing.
-- Relies on index: queue_delta_at, queue_count_pkey, queue_minute_pkey, queue_minute_minute, queue_period_pkey,
--   queue_period_start, delayed_count_due, generation_pkey, queue_pkey; the first
--   time message_visible, message_enqueued.
-- Routed: to each partition; the results are added.
--
-- p_all reads all changes, including those of long transactions, and records the time, from which later calls start: while
-- an old snapshot keeps vacuum from the folded rows, they read only a part of them. The first time it counts the messages
-- themselves: calls that began before these tables existed wrote no changes.
create function skipmq.fold_counts(p_all boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_from timestamptz;
  v_count integer;
begin
  if not skipmq.hold_job('fold_counts') then
    return 0;
  end if;
  select case when p_all then '-infinity' else c.counted_to - interval '10 seconds' end into v_from
  from skipmq.cluster c;
  if p_all and exists (select from skipmq.cluster c where c.counted_to = '-infinity') then
    insert into skipmq.queue_count as c (queue_id, messages)
    select q.queue_id, s.messages + f.messages - coalesce(d.change, 0)
    from skipmq.queue q
    cross join lateral (
      select count(*) as messages from skipmq.message m where m.queue_id = q.queue_id and m.group_no is null
    ) s
    cross join lateral (
      select count(*) as messages from skipmq.message m where m.queue_id = q.queue_id and m.group_no is not null
    ) f
    left join (
      select d.queue_id, sum(d.change) as change from skipmq.queue_delta d group by d.queue_id
    ) d on d.queue_id = q.queue_id
    on conflict (queue_id) do update set messages = excluded.messages;
  end if;
  with folded as (
    delete from skipmq.queue_delta d where d.at >= v_from
    returning d.queue_id, d.change, d.event, coalesce(d.number, abs(d.change)) as number, d.bytes
  ), added as (
    select
      f.queue_id, sum(f.change) as messages, sum(f.bytes) as bytes_sent,
      coalesce(sum(f.number) filter (where f.event = 'sent'), 0) as sent,
      coalesce(sum(f.number) filter (where f.event = 'received'), 0) as received,
      coalesce(sum(f.number) filter (where f.event = 'empty'), 0) as empty_receives,
      coalesce(sum(f.number) filter (where f.event = 'deleted'), 0) as deleted,
      coalesce(sum(f.number) filter (where f.event = 'expired'), 0) as expired,
      coalesce(sum(f.number) filter (where f.event = 'dead-lettered'), 0) as dead_lettered,
      coalesce(sum(f.number) filter (where f.event = 'redriven'), 0) as redriven,
      coalesce(sum(f.number) filter (where f.event = 'moved-in'), 0) as moved_in
    from folded f
    where not exists (
      select from skipmq.generation g where g.queue_id = f.queue_id and g.cleared_at is not null)
    group by f.queue_id
  ), totals as (
    -- What is counted late for a purged generation belongs to its queue, whose totals continue.
    select
      t.queue_id, sum(t.messages) as messages, sum(a.bytes_sent) as bytes_sent, sum(a.sent) as sent,
      sum(a.received) as received, sum(a.empty_receives) as empty_receives, sum(a.deleted) as deleted,
      sum(a.expired) as expired, sum(a.dead_lettered) as dead_lettered, sum(a.redriven) as redriven,
      sum(a.moved_in) as moved_in
    from added a
    cross join lateral (
      select a.queue_id, a.messages
      union all
      select q.queue_id, 0
      from skipmq.generation g
      join skipmq.queue q on q.account = g.account and q.region = g.region and q.name = g.name
      where g.queue_id = a.queue_id and g.retired_as = 'purged'
    ) t
    group by t.queue_id
  ), summed as (
    insert into skipmq.queue_count as c (
      queue_id, messages, sent, bytes_sent, received, empty_receives, deleted, expired, dead_lettered, redriven, moved_in)
    select
      a.queue_id, a.messages, a.sent, a.bytes_sent, a.received, a.empty_receives, a.deleted, a.expired,
      a.dead_lettered, a.redriven, a.moved_in
    from totals a
    order by a.queue_id
    on conflict (queue_id) do update set
      messages = c.messages + excluded.messages,
      sent = c.sent + excluded.sent,
      bytes_sent = c.bytes_sent + excluded.bytes_sent,
      received = c.received + excluded.received,
      empty_receives = c.empty_receives + excluded.empty_receives,
      deleted = c.deleted + excluded.deleted,
      expired = c.expired + excluded.expired,
      dead_lettered = c.dead_lettered + excluded.dead_lettered,
      redriven = c.redriven + excluded.redriven,
      moved_in = c.moved_in + excluded.moved_in
    returning c.queue_id, c.messages
  ), noted as (
    insert into skipmq.queue_minute as m (
      minute, queue_id, sent, moved_in, received, deleted, dead_lettered, expired, empty_receives, messages)
    select
      date_trunc('minute', v_now), a.queue_id, a.sent + a.moved_in, a.moved_in, a.received, a.deleted, a.dead_lettered,
      a.expired, a.empty_receives, s.messages
    from added a join summed s on s.queue_id = a.queue_id
    order by a.queue_id
    on conflict (queue_id, minute) do update set
      sent = m.sent + excluded.sent,
      moved_in = m.moved_in + excluded.moved_in,
      received = m.received + excluded.received,
      deleted = m.deleted + excluded.deleted,
      dead_lettered = m.dead_lettered + excluded.dead_lettered,
      expired = m.expired + excluded.expired,
      empty_receives = m.empty_receives + excluded.empty_receives,
      messages = excluded.messages
  )
  select count(*) into v_count from folded;
  if p_all then
    update skipmq.cluster c set counted_to = v_now;
    perform skipmq.fold_delayed(v_now);
    with old as (
      delete from skipmq.queue_minute m where m.minute < v_now - interval '6 hours'
      returning m.*
    )
    insert into skipmq.queue_period as p (
      queue_id, start, sent, received, deleted, dead_lettered, expired, empty_receives, messages)
    select
      o.queue_id, date_bin('10 minutes', o.minute, 'epoch'), sum(o.sent), sum(o.received), sum(o.deleted),
      sum(o.dead_lettered), sum(o.expired), sum(o.empty_receives), (array_agg(o.messages order by o.minute desc))[1]
    from old o
    group by 1, 2
    order by 1, 2
    on conflict (queue_id, start) do update set
      sent = p.sent + excluded.sent,
      received = p.received + excluded.received,
      deleted = p.deleted + excluded.deleted,
      dead_lettered = p.dead_lettered + excluded.dead_lettered,
      expired = p.expired + excluded.expired,
      empty_receives = p.empty_receives + excluded.empty_receives,
      messages = excluded.messages;
    delete from skipmq.queue_period p where p.start < v_now - interval '7 days';
  end if;
  return v_count;
end $$;
