-- Does: deletes a topic with its subscriptions; returns whether there was one.
-- Called by: the DeleteTopic action.
-- Locks, in order: topic row, subscription rows.
-- Raises: nothing.
-- Relies on index: topic_account_region_name_key, subscription_pkey, deduplication_pkey.
-- Routed: to the home of p_topic.
create function skipmq.delete_topic(p_topic text, p_account text, p_region text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from skipmq.topic t where t.account = p_account and t.region = p_region and t.name = p_topic;
  return found;
end $$;
