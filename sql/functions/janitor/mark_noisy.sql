-- Does: finds the noisy tenants of the queues whose messages have groups: those with at least 30 messages, and more than a
--   tenth of the queue's, in flight now or within the last minute. Deprioritises up to p_limit of their waiting
--   messages; returns the number deprioritised. Also forgets used rates and pauses of groups that have ended, and what rates
--   were used at times that the clock, set back, has yet to come to.
-- Called by: the janitor.
-- Locks, in order: row of the job (does nothing when it is locked), tenants; rates, message rows, skipping locked ones; paused groups.
-- Raises: nothing.
-- Relies on index: message_visible, noisy_tenant_pkey, receive_rate_pkey, and those of shards and deprioritise.
-- Routed: to each partition; the results are added.
--
-- Source: SQS Developer Guide, Amazon SQS fair queues.
create function skipmq.mark_noisy(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queue bigint;
  v_limited boolean;
  v_noisy text[];
  v_count integer := 0;
begin
  if not skipmq.hold_job('mark_noisy') then
    return 0;
  end if;
  delete from skipmq.noisy_tenant t where t.until <= v_now;
  delete from skipmq.receive_rate r
  where r.ctid = any (array(select o.ctid from skipmq.receive_rate o where o.used_until <= v_now for update skip locked));
  update skipmq.receive_rate r set used_until = o.most
  from (
    select r.ctid as tid, v_now + make_interval(secs => (coalesce(q.receive_burst, greatest(ceil(u.rate), 1)) / u.rate)::float8) as most
    from skipmq.receive_rate r
    join skipmq.queue q on q.queue_id = r.queue_id
    cross join lateral (
      select case r.key when '' then q.maximum_receive_rate else q.maximum_receive_rate_per_group end as rate
    ) u
    where r.used_until > v_now + interval '1 second'
    for no key update of r skip locked
  ) o
  -- A claim uses no more than a burst.
  where r.ctid = o.tid and r.used_until > o.most + interval '1 second';
  delete from skipmq.paused_group g where g.until <= v_now;
  for v_queue, v_limited in
    select q.queue_id, q.limited from skipmq.queue q where q.tenants and not q.fifo
  loop
    insert into skipmq.noisy_tenant as t (queue_id, group_id, until)
    select v_queue, c.group_id, v_now + interval '1 minute'
    from (
      select m.group_id, count(*) as own, sum(count(*)) over () as total
      from skipmq.message m
      where m.queue_id = v_queue and m.shard = any (skipmq.shards(v_queue)) and m.group_no is null
        and m.visible_at > v_now and m.receive_count > m.receive_base
      group by m.group_id
    ) c
    where c.group_id is not null and c.own >= 30 and c.own > c.total * 0.1
    on conflict (queue_id, group_id) do update set until = excluded.until;
    v_noisy := array(select t.group_id from skipmq.noisy_tenant t where t.queue_id = v_queue);
    if v_noisy <> '{}' and v_count < p_limit then
      v_count := v_count + skipmq.deprioritise(v_queue, v_noisy, v_now, p_limit - v_count, v_limited);
    end if;
  end loop;
  return v_count;
end $$;
