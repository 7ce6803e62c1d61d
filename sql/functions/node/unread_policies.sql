-- Does: lists the subscribed queues whose policy has changed since a node has read it for the topic, with that policy.
-- Called by: the Publish and Subscribe actions, which evaluate it.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: subscription_pkey, queue_pkey.
-- Routed: to the partition of p_topic_id.
create function skipmq.unread_policies(p_topic_id bigint)
returns table (subscription_id uuid, account text, region text, name text, policy text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.subscription_id, q.account, q.region, q.name, q.policy
  from skipmq.subscription s
  join skipmq.queue q on q.account = s.account and q.region = s.region and q.name = s.name
  where s.topic_id = p_topic_id and q.policy <> '' and s.policy_digest is distinct from md5(q.policy)
$$;
