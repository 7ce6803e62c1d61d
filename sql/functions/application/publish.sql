-- Does: publishes a message to the named topic, in the caller's transaction; returns its id.
-- Called by: SQL users: `insert into orders …; select skipmq.publish('orders', …); commit;`.
-- Locks, in order: those of publish_messages.
-- Raises: what check_grant, check_attributes, check_message and publish_messages raise; SQ014 when the topic does not exist.
-- Relies on index: topic_account_region_name_key.
-- Routed: to the home of p_topic.
create function skipmq.publish(
  p_topic text,
  p_body text,
  p_attributes jsonb default null,
  p_subject text default null,
  p_group_id text default null,
  p_deduplication_id text default null,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_topic skipmq.topic;
  v_fifo boolean := p_topic like '%.fifo';
  v_attributes text;
  v_bytes bigint := 0;
  v_message_id uuid := gen_random_uuid();
begin
  perform skipmq.check_grant('send', p_topic, p_account, p_region);
  select t.* into v_topic from skipmq.topic t
  where t.account = p_account and t.region = p_region and t.name = p_topic;
  if not found then
    raise exception 'topic % does not exist in account %, region %',
      skipmq.shown(p_topic), skipmq.shown(p_account), skipmq.shown(p_region)
      using errcode = 'SQ014', hint = format('skipmq topic create %s', skipmq.shown(p_topic));
  end if;
  if v_fifo and p_deduplication_id is null and (v_topic.attributes ->> 'ContentBasedDeduplication') = 'true' then
    p_deduplication_id := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
  end if;
  if p_attributes is not null then
    select c.stored[1], coalesce(c.bytes[1], 0) into v_attributes, v_bytes
    from skipmq.check_attributes(array[p_attributes::text]) c;
  end if;
  perform skipmq.check_message(
    v_fifo, coalesce((v_topic.attributes ->> 'MaximumMessageSize')::integer, 262144), 900, p_body, v_bytes, null, p_group_id,
    p_deduplication_id, null);
  return (
    select p.message_id
    from skipmq.publish_messages(
      v_topic.topic_id, array[v_message_id], array[p_body], array[p_subject],
      array[v_attributes],
      array[(octet_length(p_body) + v_bytes)::integer], array[p_group_id], array[p_deduplication_id], array[null::text],
      session_user::text, null) p);
end $$;
