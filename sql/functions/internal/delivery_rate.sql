-- Does: returns the messages a second that an address takes by the delivery policies of its subscription and topic, null for any.
-- Called by: subscribe, change_subscription, change_topic.
-- Locks, in order: none.
-- Raises: nothing for policies that the actions have checked.
-- Relies on index: none.
create function skipmq.delivery_rate(p_own jsonb, p_topic jsonb) returns float8
language sql immutable
as $$
  select coalesce(
    case when http -> 'disableSubscriptionOverrides' is distinct from 'true' then
      (p_own ->> 'DeliveryPolicy')::jsonb -> 'throttlePolicy' ->> 'maxReceivesPerSecond' end,
    http -> 'defaultThrottlePolicy' ->> 'maxReceivesPerSecond')::float8
  from (values ((p_topic ->> 'DeliveryPolicy')::jsonb -> 'http')) t (http)
$$;
