-- Does: adds what has changed in the numbers of messages to their sums; gives how many changes it folded.
-- Called by: the janitor.
-- Locks, in order: advisory lock of the job (when it is held elsewhere nothing is done), changes by time,
--   sums by queue_id.
-- Raises: nothing.
-- Relies on index: queue_delta_at, queue_count_pkey, generation_pkey; the first time message_visible, message_enqueued.
--
-- p_all reads all changes, also at those of transactions that have run for long, and notes the time:
-- later calls begin there. So while a snapshot is held open, and what was folded cannot be cleared,
-- only a part of it is met again. The first time it counts the messages themselves: calls that had begun
-- before these sums were there left no changes.
create function skipmq.fold_counts(p_all boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_from timestamptz;
  v_count integer;
begin
  if not pg_try_advisory_xact_lock(hashtext('skipmq'), hashtext('fold_counts')) then
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
    delete from skipmq.queue_delta d where d.at >= v_from returning d.queue_id, d.change
  ), summed as (
    insert into skipmq.queue_count as c (queue_id, messages)
    select f.queue_id, sum(f.change)
    from folded f
    where not exists (
      select from skipmq.generation g where g.queue_id = f.queue_id and g.cleared_at is not null)
    group by f.queue_id
    order by f.queue_id
    on conflict (queue_id) do update set messages = c.messages + excluded.messages
  )
  select count(*) into v_count from folded;
  if p_all then
    update skipmq.cluster c set counted_to = v_now;
  end if;
  return v_count;
end $$;
