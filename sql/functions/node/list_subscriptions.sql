-- Does: lists at most p_limit subscriptions after p_after, by their ARNs: those of an account and region, or of a topic, or
--   the one of an id or of a token.
-- Called by: the ListSubscriptions, ListSubscriptionsByTopic, GetSubscriptionAttributes and ConfirmSubscription actions.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: topic_account_region_name_key, subscription_pkey, subscription_token.
-- Routed: to all partitions; the rows are merged, order by 1 limit p_limit.
create function skipmq.list_subscriptions(
  p_account text, p_region text, p_topic text, p_id uuid, p_token text, p_after text, p_limit integer
) returns table (
  arn text, topic_arn text, topic_id bigint, subscription_id uuid, protocol text, endpoint text, owner text,
  principal text, confirmed boolean, authenticated boolean, signed_unsubscribe boolean, attributes jsonb, topic_attributes jsonb
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    (t.arn || ':' || s.subscription_id) collate "C", t.arn, t.topic_id, s.subscription_id, s.protocol, s.endpoint, s.owner,
    s.principal, s.confirmed, s.authenticated, s.signed_unsubscribe, s.attributes, t.attributes
  from (
    select t.topic_id, t.attributes, t.account, t.region, t.name,
      format('arn:aws:sns:%s:%s:%s', t.region, t.account, t.name) as arn
    from skipmq.topic t
    where t.account = p_account and t.region = p_region and (p_topic is null or t.name = p_topic)
  ) t
  join skipmq.subscription s on s.topic_id = t.topic_id
  where (p_id is null or s.subscription_id = p_id) and case when p_token is null then not s.ended
      else s.token = p_token and s.created_at > skipmq.clock() - interval '2 days' end
    and (t.arn || ':' || s.subscription_id) collate "C" > p_after
  order by 1
  limit p_limit
$$;
