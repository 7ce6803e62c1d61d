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
  v_new skipmq.subscription := jsonb_populate_record(null::skipmq.subscription, p_subscription);
begin
  select skipmq.delivery_rate(v_new.attributes, t.attributes) into v_new.throttle
  from skipmq.topic t where t.topic_id = p_topic_id for key share;
  if not found then
    return;
  end if;
  v_new.topic_id := p_topic_id;
  v_new.subscription_id := gen_random_uuid();
  v_new.created_at := skipmq.clock();
  v_new.authenticated := v_new.confirmed;
  v_new.ended := false;
  v_new.throttled_until := '-infinity';
  -- One whose token has expired, or that its link ended, begins again.
  delete from skipmq.subscription s
  where s.topic_id = p_topic_id and s.protocol = v_new.protocol and md5(s.endpoint) = md5(v_new.endpoint)
    and not s.confirmed and (s.ended or s.created_at <= v_new.created_at - interval '2 days');
  insert into skipmq.subscription values (v_new.*)
  on conflict (topic_id, protocol, md5(endpoint)) do nothing;
  is_new := found;
  return query
  select s.subscription_id, s.attributes, s.confirmed, is_new
  from skipmq.subscription s
  where s.topic_id = p_topic_id and s.protocol = v_new.protocol and md5(s.endpoint) = md5(v_new.endpoint);
  perform skipmq.send_confirmation(p_topic_id, s.subscription_id)
  from skipmq.subscription s
  where s.topic_id = p_topic_id and s.protocol = v_new.protocol and md5(s.endpoint) = md5(v_new.endpoint)
    and s.protocol in ('http', 'https') and not s.confirmed;
end $$;
