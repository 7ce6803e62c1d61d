-- Does: ends the attempt p_attempt to deliver a message to an address: it was delivered, or is due again after p_delay seconds, or,
--   where that is null, goes to the dead-letter queue of its subscription or is dropped; returns which of these, or null when
--   another node has claimed it since.
-- Called by: the janitor.
-- Locks, in order: delivery row, those of send_to_queues.
-- Raises: nothing.
-- Relies on index: http_delivery_pkey, subscription_pkey, queue_pkey.
-- Routed: not: nodes run it on each partition.
create function skipmq.settle_delivery(p_delivery_id uuid, p_attempt integer, p_delivered boolean, p_delay float8) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_delivery skipmq.http_delivery;
  v_queue_id bigint;
  v_arn text;
begin
  if not p_delivered and p_delay is not null then
    update skipmq.http_delivery d set due_at = skipmq.clock() + make_interval(secs => p_delay)
    where d.delivery_id = p_delivery_id and d.attempt = p_attempt;
    return case when found then 'deferred' end;
  end if;
  delete from skipmq.http_delivery d where d.delivery_id = p_delivery_id and d.attempt = p_attempt
  returning d.* into v_delivery;
  if not found or p_delivered then
    return case when found then 'delivered' end;
  end if;
  select q.queue_id, format('arn:aws:sqs:%s:%s:%s', q.region, q.account, q.name) into v_queue_id, v_arn
  from skipmq.subscription s
  join skipmq.queue q
    on q.account = s.dead_letter_account and q.region = s.dead_letter_region and q.name = s.dead_letter_name and not q.fifo
  where s.topic_id = v_delivery.topic_id and s.subscription_id = v_delivery.subscription_id
    and v_delivery.type = 'Notification';
  if not found then
    return 'dropped';
  end if;
  perform skipmq.send_to_queues(
    array[v_queue_id], array[p_delivery_id], array[v_delivery.body], array[v_delivery.attributes], null, null,
    array[null::text], array['sns.amazonaws.com'], 'on', null);
  -- It wakes receivers.
  perform pg_notify('skipmq', 'sql sent ' || v_arn);
  return 'dead-lettered';
end $$;
