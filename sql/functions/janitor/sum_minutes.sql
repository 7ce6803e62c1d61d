-- Does: adds up the messages sent, received and deleted in the last minutes, and those in queues, of each account and of all;
--   notes the timeline. Returns the number of minutes. Removes those older than six hours.
-- Called by: the janitor.
-- Locks, in order: row of the job (does nothing when it is locked), rows of minutes, by key.
-- Raises: nothing.
-- Relies on index: broker_minute_pkey, broker_minute_minute, queue_minute_minute, queue_pkey, generation_pkey, queue_count_pkey.
-- Routed: to each partition; the results are added.
--
-- The messages of an account whose queues are not used are noted every ten minutes.
create function skipmq.sum_minutes() returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set synchronous_commit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_minute timestamptz := date_trunc('minute', v_now);
  v_last timestamptz;
  v_from timestamptz;
begin
  if not skipmq.hold_job('sum_minutes') then
    return 0;
  end if;
  select max(m.minute) into v_last from skipmq.broker_minute m where m.account = '*' and m.minute <= v_minute;
  v_from := greatest(v_last - interval '1 minute', v_minute - interval '6 hours');
  with flows as materialized (
    select a.account, m.minute, sum(m.sent) as sent, sum(m.received) as received, sum(m.deleted) as deleted
    from skipmq.queue_minute m
    left join skipmq.queue q on q.queue_id = m.queue_id
    left join skipmq.generation g on g.queue_id = m.queue_id
    cross join lateral (values (coalesce(q.account, g.account)), ('*')) a (account)
    where m.minute >= v_from and a.account is not null
    group by a.account, m.minute
  ), waiting as (
    select a.account, sum(greatest(c.messages, 0)) as messages
    from skipmq.queue q
    join skipmq.queue_count c on c.queue_id = q.queue_id
    cross join lateral (values (q.account), ('*')) a (account)
    group by a.account
  ), found as (
    select f.account, f.minute, k.kind, k.number
    from flows f
    cross join lateral (values ('sent', f.sent), ('received', f.received), ('deleted', f.deleted)) k (kind, number)
    union all
    select w.account, v_minute, 'messages', w.messages
    from waiting w
    where w.account = '*' or date_part('minute', v_minute)::integer % 10 = 0
      or exists (select from flows f where f.account = w.account and f.minute = v_minute)
  )
  insert into skipmq.broker_minute as m (account, minute, kind, label, number)
  select f.account, f.minute, f.kind, '', f.number
  from found f
  order by f.account, f.minute, f.kind
  on conflict (account, minute, kind, label) do update set number = excluded.number
  where m.number <> excluded.number;
  insert into skipmq.broker_minute (account, minute, kind, label, number)
  values ('', v_minute, 'timeline', skipmq.timeline()::text, 1)
  on conflict do nothing;
  if v_last is distinct from v_minute then
    -- Those of a clock that was ahead, too.
    delete from skipmq.broker_minute m where m.minute < v_minute - interval '6 hours' or m.minute > v_minute + interval '1 minute';
  end if;
  return coalesce(extract(epoch from v_minute - v_from) / 60 + 1, 0)::integer;
end $$;
