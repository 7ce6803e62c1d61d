-- Does: claims messages for addresses: at most p_each of a subscription, but for those in p_busy, and p_limit in all, for
--   p_seconds, after which another node may; one with a throttle only when its turn comes, across all nodes; returns them with what their delivery depends on.
-- Called by: the janitor.
-- Locks, in order: delivery rows, skipping locked ones; rows of throttled subscriptions.
-- Raises: nothing.
-- Relies on index: subscription_http, http_delivery_due, topic_pkey.
-- Routed: not: nodes run it on each partition.
create function skipmq.claim_deliveries(p_limit integer, p_each integer, p_seconds float8, p_busy uuid[])
returns table (
  delivery_id uuid, subscription_id uuid, arn text, topic_arn text, endpoint text, message_id uuid, type text, raw boolean,
  body text, attempt integer, policy text, topic_policy text,
  throttle float8
)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
  with due as materialized (
    select d.delivery_id, s.topic_id, s.subscription_id, s.throttle
    from skipmq.subscription s
    cross join lateral (
      select d.delivery_id from skipmq.http_delivery d
      where d.subscription_id = s.subscription_id and d.due_at <= skipmq.clock()
      order by d.due_at limit case when s.throttle is null then p_each else 1 end
      for update skip locked
    ) d
    where s.protocol in ('http', 'https') and s.subscription_id <> all (p_busy)
      and (s.throttle is null or s.throttled_until <= skipmq.clock())
    limit p_limit
  ), turn as (
    -- Another node that claims at the same time is waited for, and then has taken it.
    update skipmq.subscription s set throttled_until = skipmq.clock() + make_interval(secs => 1 / s.throttle)
    from due
    where s.topic_id = due.topic_id and s.subscription_id = due.subscription_id
      and due.throttle is not null and s.throttled_until <= skipmq.clock()
    returning s.subscription_id
  ), claimed as (
    update skipmq.http_delivery d set attempt = d.attempt + 1, due_at = skipmq.clock() + make_interval(secs => p_seconds)
    from due
    where d.delivery_id = due.delivery_id
      and (due.throttle is null or due.subscription_id in (select t.subscription_id from turn t))
    returning d.*
  )
  select
    c.delivery_id, c.subscription_id, concat(t.arn, ':', c.subscription_id), t.arn, s.endpoint, c.message_id, c.type,
    s.raw and c.type = 'Notification', c.body, c.attempt, s.attributes ->> 'DeliveryPolicy', t.policy, s.throttle
  from claimed c
  join skipmq.subscription s on s.topic_id = c.topic_id and s.subscription_id = c.subscription_id
  cross join lateral (
    select format('arn:aws:sns:%s:%s:%s', t.region, t.account, t.name), t.attributes ->> 'DeliveryPolicy'
    from skipmq.topic t where t.topic_id = c.topic_id) t (arn, policy)
$$;
