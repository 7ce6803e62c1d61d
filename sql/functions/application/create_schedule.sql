-- Does: creates a schedule that sends p_body to a queue, or gives the one of that name these properties; a node determines the time of
--   its next tick, unless expression, zone and end are those that it has and no failure has ended it. Returns whether it is new.
-- Called by: the CreateSchedule action, programs that declare their schedules; SQL users.
-- Locks, in order: row of the schedule, those of granted_queue.
-- Raises: what granted_queue raises; SQ008 when the schedule sends to another queue; 23514 when a value is out of range.
-- Relies on index: queue_pkey, schedule_pkey.
-- Routed: to the partition of p_queue.
create function skipmq.create_schedule(
  p_name text, p_queue text, p_expression text, p_body text, p_zone text default 'UTC', p_attributes jsonb default null,
  p_group_id text default null, p_jitter integer default 0, p_catch_up text default 'latest',
  p_ends_at timestamptz default null, p_max_failures integer default 10,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queue text;
  v_keeps boolean; -- Its next tick.
  v_new boolean;
begin
  perform skipmq.check_grant('send', p_queue, p_account, p_region);
  select s.queue,
    s.planned and (s.next_at is not null or s.failure is null)
      and (s.expression, s.zone, s.ends_at) is not distinct from (p_expression, p_zone, p_ends_at)
  into v_queue, v_keeps
  from skipmq.schedule s
  where s.account = p_account and s.region = p_region and s.name = p_name
  for update;
  perform skipmq.granted_queue('send', p_queue, p_account, p_region);
  if v_queue <> p_queue then
    raise exception 'The schedule % sends to the queue %: delete it first.', skipmq.shown(p_name), v_queue using errcode = 'SQ008';
  elsif p_queue like '%.fifo' and (p_jitter > 0 or p_group_id is null) then
    raise exception 'A schedule of a FIFO queue needs a group and cannot have jitter.' using errcode = 'SQ008';
  end if;
  insert into skipmq.schedule as s (
    account, region, name, queue, expression, zone, jitter, catch_up, body, attributes, group_id, ends_at, max_failures,
    created_at, next_at)
  values (
    p_account, p_region, p_name, p_queue, p_expression, p_zone, p_jitter, p_catch_up, p_body, p_attributes, p_group_id, p_ends_at,
    p_max_failures, v_now, v_now)
  on conflict (account, region, name) do update set
    planned = v_keeps is true, next_at = case when v_keeps then s.next_at else v_now end,
    expression = excluded.expression, zone = excluded.zone, jitter = excluded.jitter, catch_up = excluded.catch_up,
    body = excluded.body, attributes = excluded.attributes, group_id = excluded.group_id, ends_at = excluded.ends_at,
    max_failures = excluded.max_failures, failures = 0, failure = null
  where s.queue = excluded.queue
  returning s.xmax = 0 into v_new;
  if not found then
    -- Another session has created it meanwhile.
    raise exception 'The schedule % sends to another queue: delete it first.', skipmq.shown(p_name) using errcode = 'SQ008';
  end if;
  perform pg_notify('skipmq_tasks', '');
  return v_new;
end $$;
