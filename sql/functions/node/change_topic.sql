-- Does: changes attributes and tags of a topic: adds those given, and removes attributes that are null, and tags by their
--   keys. With p_old_policy it does so only while that is the policy. Returns whether it did.
-- Called by: the SetTopicAttributes, TagResource, UntagResource, AddPermission and RemovePermission actions.
-- Locks, in order: topic row; rows of the subscriptions of addresses, with a delivery policy.
-- Raises: 23514 beyond 50 tags.
-- Relies on index: topic_pkey, subscription_http.
-- Routed: to the partition of p_topic_id.
create function skipmq.change_topic(
  p_topic_id bigint, p_attributes jsonb, p_tags jsonb default '{}', p_removed text[] default '{}',
  p_old_policy text default null
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.topic t set
    attributes = jsonb_strip_nulls(t.attributes || p_attributes),
    tags = (t.tags || p_tags) - p_removed
  where t.topic_id = p_topic_id
    and (p_old_policy is null or coalesce(t.attributes ->> 'Policy', '') = p_old_policy);
  if not found then
    return false;
  end if;
  if p_attributes ? 'DeliveryPolicy' then
    update skipmq.subscription s set throttle = skipmq.delivery_rate(s.attributes, t.attributes)
    from skipmq.topic t
    where t.topic_id = p_topic_id and s.topic_id = p_topic_id and s.protocol in ('http', 'https');
  end if;
  return true;
end $$;
