-- Does: checks that a queue may use another as its dead-letter queue; p_target is its ARN, split at the colons.
-- Called by: set_queue_attributes.
-- Locks, in order: queue row of the dead-letter queue (key share, so that it is not deleted).
-- Raises: SQ008 when the dead-letter queue does not exist, is in another region or account, has the other type or does
--   not allow the source.
-- Relies on index: queue_id, queue_pkey.
create function skipmq.check_redrive(p_queue_id bigint, p_policy text, p_target text[]) returns void
language plpgsql volatile
as $$
declare
  v_source skipmq.queue;
  v_target skipmq.queue;
  v_allow jsonb;
  v_reason text;
begin
  select q.* into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  select q.* into v_target from skipmq.queue q
  where q.account = p_target[5] and q.region = p_target[4] and q.name = p_target[6]
  for key share;
  v_allow := coalesce(nullif(v_target.redrive_allow_policy, ''), '{}');
  v_reason := case
    when p_target[5] is distinct from v_source.account
      then 'Dead letter target owner should be same as the source.'
    when p_target[4] is distinct from v_source.region
      then 'Dead-letter target region must be the same as the source.'
    when v_target.name is null then 'Dead letter target does not exist.'
    when v_target.fifo <> v_source.fifo
      then 'Dead-letter queue must be same type of queue as the source.'
    when v_allow ->> 'redrivePermission' = 'denyAll'
      or v_allow ->> 'redrivePermission' = 'byQueue' and not v_allow -> 'sourceQueueArns'
        ? format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
      then 'Dead letter target does not allow the source queue to use it.'
  end;
  if v_reason is not null then
    raise exception 'Value % for parameter RedrivePolicy is invalid. Reason: %', left(p_policy, 200), v_reason
      using errcode = 'SQ008';
  end if;
end $$;
