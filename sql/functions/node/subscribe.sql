-- Does: adds a subscription, a JSON object of the columns, to a topic, unless it has one of this protocol and endpoint;
--   returns its id, attributes, whether it is confirmed, and whether it is new; no row when the topic does not exist.
--   One over HTTP that is not confirmed is sent what confirms it, each time.
-- Called by: the Subscribe action.
-- Locks, in order: topic row (key share), subscription row.
-- Raises: nothing.
-- Relies on index: topic_pkey, subscription_endpoint.
-- Routed: to the partition of p_topic_id.
create function skipmq.subscribe(p_topic_id bigint, p_subscription jsonb)
returns table (subscription_id uuid, attributes jsonb, confirmed boolean, is_new boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_message_id uuid := gen_random_uuid();
  v_new skipmq.subscription := jsonb_populate_record(null::skipmq.subscription, p_subscription);
begin
  perform from skipmq.topic t where t.topic_id = p_topic_id for key share;
  if not found then
    return;
  end if;
  v_new.topic_id := p_topic_id;
  v_new.subscription_id := gen_random_uuid();
  v_new.created_at := skipmq.clock();
  insert into skipmq.subscription values (v_new.*)
  on conflict (topic_id, protocol, md5(endpoint)) do nothing;
  is_new := found;
  insert into skipmq.http_delivery (delivery_id, topic_id, subscription_id, message_id, type, body, due_at)
  select v_message_id, s.topic_id, s.subscription_id, v_message_id, 'SubscriptionConfirmation', concat(
    E'{\n  "Type" : "SubscriptionConfirmation",\n  "MessageId" : "', v_message_id,
    E'",\n  "Token" : "', s.token, E'",\n  "TopicArn" : "', t.arn,
    E'",\n  "Message" : "You have chosen to subscribe to the topic ', t.arn,
    '.\nTo confirm the subscription, visit the SubscribeURL included in this message.',
    E'",\n  "SubscribeURL" : "', s.base_url, '/?Action=ConfirmSubscription&TopicArn=', t.arn, '&Token=', s.token,
    E'",\n  "Timestamp" : "', to_char(v_new.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    E'",\n  "SignatureVersion" : "', t.version, E'",\n  "Signature" : "RVhBTVBMRQ==',
    E'",\n  "SigningCertURL" : "', s.base_url, E'/SimpleNotificationService-0.pem"\n}'), v_new.created_at
  from skipmq.subscription s
  cross join lateral (
    select format('arn:aws:sns:%s:%s:%s', t.region, t.account, t.name), coalesce(t.attributes ->> 'SignatureVersion', '1')
    from skipmq.topic t where t.topic_id = p_topic_id) t (arn, version)
  where s.topic_id = p_topic_id and s.protocol = v_new.protocol and md5(s.endpoint) = md5(v_new.endpoint)
    and s.protocol <> 'sqs' and not s.confirmed;
  if found then
    perform pg_notify('skipmq_deliveries', '');
  end if;
  return query
  select s.subscription_id, s.attributes, s.confirmed, is_new
  from skipmq.subscription s
  where s.topic_id = p_topic_id and s.protocol = v_new.protocol and md5(s.endpoint) = md5(v_new.endpoint);
end $$;
