-- Does: sets columns of a subscription, a JSON object, or deletes it where that is null; returns whether it was there. Where
--   they set ended its address is sent what restores it.
-- Called by: the SetSubscriptionAttributes, ConfirmSubscription, Unsubscribe and Publish actions.
-- Locks, in order: topic row, where it ends; subscription row.
-- Raises: nothing.
-- Relies on index: topic_pkey, subscription_pkey.
-- Routed: to the partition of p_topic_id.
create function skipmq.change_subscription(p_topic_id bigint, p_subscription_id uuid, p_changes jsonb) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old skipmq.subscription;
  v_new skipmq.subscription;
begin
  if p_changes is null or p_changes @> '{"ended": true}' then
    update skipmq.topic t set subscriptions_deleted = t.subscriptions_deleted + 1
    where t.topic_id = p_topic_id and exists (
      select from skipmq.subscription s where s.topic_id = p_topic_id and s.subscription_id = p_subscription_id
        and not s.ended);
  end if;
  if p_changes is null then
    delete from skipmq.subscription s where s.topic_id = p_topic_id and s.subscription_id = p_subscription_id;
    return found;
  end if;
  select s.* into v_old from skipmq.subscription s
  where s.topic_id = p_topic_id and s.subscription_id = p_subscription_id
  for no key update;
  if not found then
    return false;
  end if;
  v_new := jsonb_populate_record(v_old, p_changes);
  if v_new.ended and not v_old.ended then
    v_new.created_at := skipmq.clock();
  end if;
  update skipmq.subscription s set
    confirmed = v_new.confirmed, authenticated = v_new.authenticated, ended = v_new.ended, token = v_new.token,
    created_at = v_new.created_at, signed_unsubscribe = v_new.signed_unsubscribe, attributes = v_new.attributes, raw = v_new.raw,
    filter = v_new.filter, networks = v_new.networks, filters_body = v_new.filters_body,
    dead_letter_account = v_new.dead_letter_account, dead_letter_region = v_new.dead_letter_region,
    dead_letter_name = v_new.dead_letter_name,
    throttle = (select skipmq.delivery_rate(v_new.attributes, t.attributes) from skipmq.topic t where t.topic_id = p_topic_id),
    policy_digest = v_new.policy_digest, policy_allows = v_new.policy_allows
  where s.topic_id = p_topic_id and s.subscription_id = p_subscription_id;
  if v_new.ended and not v_old.ended then
    perform skipmq.send_confirmation(p_topic_id, p_subscription_id);
  end if;
  return true;
end $$;
