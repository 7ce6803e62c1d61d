-- Does: creates a topic, unless there is one of that name; returns its id, attributes and tags, and whether it is new.
-- Called by: the CreateTopic action.
-- Locks, in order: topic row.
-- Raises: 23514 for an invalid name or too many tags.
-- Relies on index: topic_account_region_name_key.
-- Routed: to the home of p_topic.
create function skipmq.create_topic(
  p_topic text,
  p_attributes jsonb default '{}',
  p_tags jsonb default '{}',
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns table (topic_id bigint, attributes jsonb, tags jsonb, is_new boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  insert into skipmq.topic (topic_id, account, region, name, attributes, tags, created_at)
  values (skipmq.new_queue_id(), p_account, p_region, p_topic, p_attributes, p_tags, skipmq.clock())
  on conflict (account, region, name) do nothing;
  is_new := found;
  return query
  select t.topic_id, t.attributes, t.tags, is_new
  from skipmq.topic t
  where t.account = p_account and t.region = p_region and t.name = p_topic;
end $$;
