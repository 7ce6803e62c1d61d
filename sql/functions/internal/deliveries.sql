-- Does: returns where a message of a topic goes, and as what, for at most p_limit subscriptions after p_after that it matches:
--   the queue, or the dead-letter queue of the subscription where the queue cannot take it (ok is false), or neither.
--   unread: the policy of the queue is to be read first. http: it is delivered over HTTP. Other protocols take nothing.
--   p_texts and p_heads: the texts, and the parts before the addresses, that some protocols have of their own.
-- Called by: publish_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: subscription_pkey, queue_pkey.
create function skipmq.deliveries(
  p_topic skipmq.topic, p_message_id uuid, p_message text, p_bytes integer, p_attributes text, p_head text, p_heads jsonb, p_tail text,
  p_texts jsonb, p_by_attributes jsonb, p_by_body jsonb, p_after uuid, p_limit integer
) returns table (
  subscription_id uuid, ok boolean, unread boolean, target bigint, fifo boolean, arn text, key uuid, body text,
  attributes text, http boolean
)
language sql stable
as $$
  select
    s.subscription_id, o.ok, o.unread,
    case when o.ok then q.queue_id else d.queue_id end,
    case when o.ok then q.fifo else d.fifo end,
    format('arn:aws:sqs:%s:%s:%s', s.region, s.account, case when o.ok then s.name else s.dead_letter_name end),
    -- The same for each attempt, so that a retry is recognised.
    md5(p_message_id::text || s.subscription_id)::uuid,
    case when s.raw then coalesce(p_texts ->> s.protocol, p_message) else
      coalesce(p_heads ->> s.protocol, p_head)
      || case when p_topic.name like '%.fifo' then ''
        else E',\n  "SigningCertURL" : "' || s.base_url || '/SimpleNotificationService-0.pem"' end
      || E',\n  "UnsubscribeURL" : "' || s.base_url || format(
        '/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:%s:%s:%s:%s"',
        p_topic.region, p_topic.account, p_topic.name, s.subscription_id)
      || p_tail
    end,
    case when s.raw then p_attributes end,
    o.http
  from skipmq.subscription s
  left join skipmq.queue q on q.account = s.account and q.region = s.region and q.name = s.name
  left join skipmq.queue d
    on d.account = s.dead_letter_account and d.region = s.dead_letter_region and d.name = s.dead_letter_name
  cross join lateral (
    select
      s.protocol in ('http', 'https') as http,
      coalesce(q.policy <> '' and s.policy_digest is distinct from md5(q.policy), false) as unread,
      s.protocol in ('http', 'https') or q.queue_id is not null and p_bytes <= q.maximum_message_size
        and case when q.policy = '' then q.account = p_topic.account else coalesce(s.policy_allows, false) end
        -- A message has at most ten attributes.
        and not (s.raw and (select count(*) > 10 from json_object_keys(p_attributes::json))) as ok
  ) o
  where s.topic_id = p_topic.topic_id and s.confirmed and s.subscription_id > p_after
    and (s.filter is null or case
      when s.networks is null then case when s.filters_body then p_by_body else p_by_attributes end @@ s.filter
      else skipmq.matches_policy(
        case when s.filters_body then p_by_body else p_by_attributes end, s.filter, s.networks) end)
  order by s.subscription_id
  limit p_limit
$$;
