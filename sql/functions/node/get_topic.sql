-- Does: finds a topic by name, with the numbers of its subscriptions; returns no row when it does not exist.
-- Called by: the actions on topics.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: topic_account_region_name_key, subscription_pkey.
-- Routed: to the home of p_topic.
create function skipmq.get_topic(p_topic text, p_account text, p_region text, p_counts boolean default false)
returns table (topic_id bigint, attributes jsonb, tags jsonb, confirmed bigint, pending bigint, deleted bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.topic_id, t.attributes, t.tags, s.confirmed, s.pending, t.subscriptions_deleted
  from skipmq.topic t
  cross join lateral (
    select count(*) filter (where s.confirmed) as confirmed, count(*) filter (where not s.confirmed and not s.ended) as pending
    from skipmq.subscription s
    where p_counts and s.topic_id = t.topic_id
  ) s
  where t.account = p_account and t.region = p_region and t.name = p_topic
$$;
