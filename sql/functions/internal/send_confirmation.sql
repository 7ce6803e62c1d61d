-- Does: stores what an address gets to confirm its subscription or, where its link ended it, to restore it.
-- Called by: subscribe, change_subscription.
-- Locks, in order: subscription row (key share).
-- Raises: nothing.
-- Relies on index: topic_pkey, subscription_pkey.
create function skipmq.send_confirmation(p_topic_id bigint, p_subscription_id uuid) returns void
language plpgsql volatile
as $$
declare
  v_message_id uuid := gen_random_uuid();
  v_now timestamptz := skipmq.clock();
begin
  insert into skipmq.http_delivery (delivery_id, topic_id, subscription_id, message_id, type, body, due_at)
  select v_message_id, s.topic_id, s.subscription_id, v_message_id, m.type, concat(
    E'{\n  "Type" : "', m.type, E'",\n  "MessageId" : "', v_message_id,
    E'",\n  "Token" : "', s.token, E'",\n  "TopicArn" : "', t.arn, E'",\n  "Message" : "', m.text,
    E'",\n  "SubscribeURL" : "', s.base_url, '/?Action=ConfirmSubscription&TopicArn=', t.arn, '&Token=', s.token,
    E'",\n  "Timestamp" : "', to_char(v_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    E'",\n  "SignatureVersion" : "', t.version, E'",\n  "Signature" : "RVhBTVBMRQ==',
    E'",\n  "SigningCertURL" : "', s.base_url, E'/SimpleNotificationService-0.pem"\n}'), v_now
  from skipmq.subscription s
  cross join lateral (
    select format('arn:aws:sns:%s:%s:%s', t.region, t.account, t.name), coalesce(t.attributes ->> 'SignatureVersion', '1')
    from skipmq.topic t where t.topic_id = p_topic_id) t (arn, version)
  cross join lateral (
    select 'SubscriptionConfirmation', concat('You have chosen to subscribe to the topic ', t.arn,
      '.\nTo confirm the subscription, visit the SubscribeURL included in this message.')
    where not s.ended
    union all
    select 'UnsubscribeConfirmation', concat('You have chosen to deactivate subscription ', t.arn, ':', s.subscription_id,
      '.\nTo cancel this operation and restore the subscription, visit the SubscribeURL included in this message.')
    where s.ended) m (type, text)
  where s.topic_id = p_topic_id and s.subscription_id = p_subscription_id;
  perform pg_notify('skipmq_deliveries', '');
end $$;
