-- Does: hides received messages for p_timeouts seconds from now (0: makes them visible). Returns an outcome for each, by
--   its place in the arrays: changed, missing (settled), beyond-limit (more than 12 hours after its receive) or held
--   (unchanged, since another transaction has locked it and p_waits is false); for a FIFO queue also missing (received
--   again), and there and where messages in flight are limited not-in-flight (already visible).
-- Called by: the ChangeMessageVisibility and ChangeMessageVisibilityBatch actions; SQL users.
-- Locks, in order: those of hold_limits; message rows by id, unless p_waits is false in any order.
-- Raises: what hold_limits raises; for an SQL user (p_commit is null) what check_timeouts raises.
-- Relies on index: message_pkey.
-- Routed: to the partition of p_queue_id.
--
-- p_message_ids: see delete_messages. p_received_at is the time of the receive that the receipt belongs to (null: the limit of
-- 12 hours is not checked).
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it unchanged.
create function skipmq.change_visibility(
  p_queue_id bigint,
  p_ids bigint[],
  p_receive_counts integer[],
  p_message_ids uuid[],
  p_received_at timestamptz[],
  p_timeouts integer[],
  p_commit text default null,
  p_waits boolean default true
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
  v_held boolean := not skipmq.hold_limits(p_queue_id, p_waits);
  v_limited boolean := exists (
    select from skipmq.queue q where q.queue_id = p_queue_id and q.limited
      and num_nonnulls(q.maximum_in_flight, q.maximum_in_flight_per_group) > 0);
  v_free bigint[];
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  else
    perform skipmq.check_timeouts(p_timeouts);
  end if;
  -- After the lock of the limits: a claim that had it before took what was visible then for free.
  v_now := skipmq.write_time();
  -- A separate statement for the locks, so that the next one sees the current rows.
  if p_waits then
    perform from (
      select u.id from unnest(p_ids) u (id) order by u.id
    ) r
    cross join lateral (
      select from skipmq.message m
      where m.id = r.id and m.queue_id = p_queue_id
      for no key update
    ) l;
  else
    v_free := array(
      select l.id
      from unnest(p_ids) u (id)
      cross join lateral (
        select m.id from skipmq.message m
        where m.id = u.id and m.queue_id = p_queue_id
        for no key update skip locked
      ) l);
  end if;
  return query
  with receipt as materialized (
    select u.place, u.id, u.receive_count, u.message_id, u.received_at, v_now + make_interval(secs => greatest(u.timeout, 0)) as until
    from unnest(p_ids, p_receive_counts, p_message_ids, p_received_at, p_timeouts) with ordinality
      u (id, receive_count, message_id, received_at, timeout, place)
  ), found as materialized (
    select r.*, m.tid, m.strict and m.visible_at <= v_now as late, v_held or r.id = any (v_free) is false as held
    from receipt r
    left join lateral (
      select m.ctid as tid, m.visible_at, m.group_no is not null or v_limited and m.receive_count > m.receive_base as strict
      from skipmq.message m
      where m.id = r.id and m.message_id = r.message_id and m.queue_id = p_queue_id
        and (m.receive_count = r.receive_count or m.group_no is null and m.receive_count > r.receive_count)
        -- Not one that was returned, and waits for a far time since.
        and (m.enqueued_at <= v_now or m.receive_count > m.receive_base)
    ) m on true
  ), changed as (
    update skipmq.message m set
      visible_at = case when b.backoff is null then f.until else f.until + skipmq.retry_delay(b.backoff, m.receive_count - m.receive_base) end
    from found f
    cross join (select (select nullif(q.retry_backoff, '')::jsonb from skipmq.queue q where q.queue_id = p_queue_id) as backoff) b
    where m.ctid = f.tid and not f.late and not f.held
      and (f.received_at is null or f.until <= f.received_at + interval '12 hours')
  )
  select
    f.place,
    case
      when f.tid is null then 'missing'
      when f.held then 'held'
      when f.late then 'not-in-flight'
      when f.until > f.received_at + interval '12 hours' then 'beyond-limit'
      else 'changed'
    end
  from found f
  order by f.place;
end $$;
