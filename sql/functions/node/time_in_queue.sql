-- Does: returns the 50th, 95th and 99th percentiles, in microseconds, of the times in the queue of a generation's messages
--   settled in the last p_minutes minutes, by steps of p_step minutes, and of all (step is null): from send to delete for
--   deleted ones, from send to first receive for received ones. part is less than one for a sample.
-- Called by: the console.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none (sample_history), queue_id, queue_dead_letter.
-- Routed: to the partition of p_queue_id.
--
-- The measures are those of the reports (app/skipmq/analytics/reports/latency.sql): the same columns of the history, and
-- percentiles that are actual values. Dead-lettered messages were first received in another queue, so that a dead-letter
-- queue has only the time to delete.
create function skipmq.time_in_queue(p_queue_id bigint, p_minutes integer, p_step integer default 1)
returns table (
  step timestamptz, settled bigint, deleted bigint, send_to_receive bigint[], send_to_delete bigint[], part float8
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  with period as materialized (
    select
      date_trunc('minute', skipmq.clock()) - make_interval(mins => p_minutes - 1) as since, skipmq.clock() as until,
      exists (
        select from skipmq.queue q
        join skipmq.queue s on s.dead_letter_account = q.account and s.region = q.region
          and s.dead_letter_name = q.name
        where q.queue_id = p_queue_id
      ) as dead_letters
  ), measured as (
    select
      date_bin(make_interval(mins => p_step), h.settled_at, 'epoch') as step, h.outcome, h.part,
      case when not p.dead_letters then date_part('epoch', h.first_received_at - h.sent_at) * 1000000 end as receive,
      case when h.outcome = 'deleted' then date_part('epoch', h.settled_at - h.sent_at) * 1000000 end as delete
    from period p
    cross join lateral skipmq.sample_history(p_queue_id, p.since, p.until) h
  )
  select
    m.step, count(*), count(*) filter (where m.outcome = 'deleted'),
    percentile_disc(array[0.5, 0.95, 0.99]) within group (order by m.receive::bigint),
    percentile_disc(array[0.5, 0.95, 0.99]) within group (order by m.delete::bigint),
    coalesce(min(m.part), 1)
  from measured m
  group by grouping sets ((m.step), ())
  order by m.step nulls last;
$$;
