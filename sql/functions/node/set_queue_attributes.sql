-- Does: sets the attributes in p_attributes (SQS names, text values); others stay unchanged. PausedBy, with Paused, is who
--   pauses the queue, by default the role.
-- Called by: create_queue, the SetQueueAttributes action; SQL users.
-- Locks, in order: queue row of the dead-letter queue (key share), queue row, group rows.
-- Raises: SQ005 when the generation does not exist, SQ006 for an unknown attribute, SQ008 when the dead-letter queue does
--   not exist or does not allow it, 23514 when a value is out of range.
-- Relies on index: queue_id, message_group_available.
-- Routed: by sql/router/, in one partition.
create function skipmq.set_queue_attributes(p_queue_id bigint, p_attributes jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue skipmq.queue;
  v_unknown text;
  v_redrive jsonb;
  v_target text[];
begin
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id;
  select a.key into v_unknown
  from jsonb_object_keys(p_attributes) a (key)
  where a.key not in (
    'VisibilityTimeout', 'DelaySeconds', 'MaximumMessageSize', 'MessageRetentionPeriod',
    'ReceiveMessageWaitTimeSeconds', 'Policy', 'RedrivePolicy', 'RedriveAllowPolicy', 'KmsMasterKeyId', 'KmsDataKeyReusePeriodSeconds',
    'SqsManagedSseEnabled',
    'MaximumDelaySeconds',
    'HistoryMode', 'ReplicationMode', 'Paused', 'PausedBy', 'BodySchema', 'BodySchemaMode',
    'DeduplicationSeconds', 'RetryBackoff',
    'MaximumInFlight',
    'MaximumReceiveRate',
    'MaximumReceiveRatePerGroup',
    'ReceiveBurst')
    and not (not v_queue.fifo and a.key in ('MaximumInFlightPerGroup', 'PriorityMode'))
    and not (v_queue.fifo and a.key in (
      'FifoQueue', 'ContentBasedDeduplication', 'DeduplicationScope', 'FifoThroughputLimit'))
  limit 1;
  if v_unknown is not null then
    raise exception 'Unknown Attribute %.', v_unknown using errcode = 'SQ006';
  elsif p_attributes ->> 'FifoQueue' <> 'true' then
    raise exception 'Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.'
      using errcode = '23514';
  elsif coalesce(p_attributes ->> 'FifoThroughputLimit', v_queue.fifo_throughput_limit) = 'perMessageGroupId'
    and coalesce(p_attributes ->> 'DeduplicationScope', v_queue.deduplication_scope) <> 'messageGroup'
  then
    raise exception 'The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup.'
      using errcode = '23514';
  end if;
  if p_attributes ->> 'RedrivePolicy' <> '' then
    v_redrive := p_attributes ->> 'RedrivePolicy';
    v_target := string_to_array(v_redrive ->> 'deadLetterTargetArn', ':');
    perform skipmq.check_redrive(p_queue_id, p_attributes ->> 'RedrivePolicy', v_target);
  end if;
  update skipmq.queue q set
    visibility_timeout = coalesce((p_attributes ->> 'VisibilityTimeout')::integer, q.visibility_timeout),
    delay_seconds = coalesce((p_attributes ->> 'DelaySeconds')::integer, q.delay_seconds),
    maximum_delay_seconds = coalesce((p_attributes ->> 'MaximumDelaySeconds')::integer, q.maximum_delay_seconds),
    maximum_message_size = coalesce((p_attributes ->> 'MaximumMessageSize')::integer, q.maximum_message_size),
    message_retention_period =
      coalesce((p_attributes ->> 'MessageRetentionPeriod')::integer, q.message_retention_period),
    receive_message_wait_time_seconds =
      coalesce((p_attributes ->> 'ReceiveMessageWaitTimeSeconds')::integer, q.receive_message_wait_time_seconds),
    policy = coalesce(p_attributes ->> 'Policy', q.policy),
    redrive_policy = coalesce(p_attributes ->> 'RedrivePolicy', q.redrive_policy),
    redrive_allow_policy = coalesce(p_attributes ->> 'RedriveAllowPolicy', q.redrive_allow_policy),
    dead_letter_account =
      case when p_attributes ->> 'RedrivePolicy' is not null then v_target[5] else q.dead_letter_account end,
    dead_letter_name =
      case when p_attributes ->> 'RedrivePolicy' is not null then v_target[6] else q.dead_letter_name end,
    max_receive_count =
      case when p_attributes ->> 'RedrivePolicy' is not null then (v_redrive ->> 'maxReceiveCount')::integer
      else q.max_receive_count end,
    kms_master_key_id = coalesce(p_attributes ->> 'KmsMasterKeyId', q.kms_master_key_id),
    kms_data_key_reuse_period_seconds =
      coalesce((p_attributes ->> 'KmsDataKeyReusePeriodSeconds')::integer, q.kms_data_key_reuse_period_seconds),
    sqs_managed_sse_enabled =
      coalesce((p_attributes ->> 'SqsManagedSseEnabled')::boolean, q.sqs_managed_sse_enabled),
    history_mode = coalesce(p_attributes ->> 'HistoryMode', q.history_mode),
    body_schema = coalesce(p_attributes ->> 'BodySchema', q.body_schema),
    body_schema_mode = coalesce(p_attributes ->> 'BodySchemaMode', q.body_schema_mode),
    deduplication_seconds = coalesce((p_attributes ->> 'DeduplicationSeconds')::integer, q.deduplication_seconds),
    retry_backoff = coalesce(p_attributes ->> 'RetryBackoff', q.retry_backoff),
    replication_mode = coalesce(p_attributes ->> 'ReplicationMode', q.replication_mode),
    maximum_in_flight = case when p_attributes ? 'MaximumInFlight'
      then nullif(p_attributes ->> 'MaximumInFlight', '')::integer else q.maximum_in_flight end,
    maximum_in_flight_per_group = case when p_attributes ? 'MaximumInFlightPerGroup'
      then nullif(p_attributes ->> 'MaximumInFlightPerGroup', '')::integer else q.maximum_in_flight_per_group end,
    maximum_receive_rate = case when p_attributes ? 'MaximumReceiveRate'
      then nullif(p_attributes ->> 'MaximumReceiveRate', '')::numeric else q.maximum_receive_rate end,
    maximum_receive_rate_per_group = case when p_attributes ? 'MaximumReceiveRatePerGroup'
      then nullif(p_attributes ->> 'MaximumReceiveRatePerGroup', '')::numeric else q.maximum_receive_rate_per_group end,
    receive_burst = case when p_attributes ? 'ReceiveBurst'
      then nullif(p_attributes ->> 'ReceiveBurst', '')::integer else q.receive_burst end,
    priority_mode = coalesce(p_attributes ->> 'PriorityMode', q.priority_mode),
    paused = coalesce((p_attributes ->> 'Paused')::boolean, q.paused),
    paused_at = case (p_attributes ->> 'Paused')::boolean
      when true then coalesce(q.paused_at, skipmq.clock()) when false then null else q.paused_at end,
    paused_by = case (p_attributes ->> 'Paused')::boolean
      when true then coalesce(q.paused_by, p_attributes ->> 'PausedBy', session_user) when false then null else q.paused_by end,
    content_based_deduplication = coalesce(
      (p_attributes ->> 'ContentBasedDeduplication')::boolean, q.content_based_deduplication),
    deduplication_scope = coalesce(p_attributes ->> 'DeduplicationScope', q.deduplication_scope),
    fifo_throughput_limit = coalesce(p_attributes ->> 'FifoThroughputLimit', q.fifo_throughput_limit),
    modified_at = skipmq.clock()
  where q.queue_id = p_queue_id;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  update skipmq.queue q set limited = true
  where q.queue_id = p_queue_id and not q.limited and (q.priority_mode <> 'none' or num_nonnulls(
    q.maximum_in_flight, q.maximum_in_flight_per_group, q.maximum_receive_rate, q.maximum_receive_rate_per_group) > 0);
  if v_queue.fifo and p_attributes ? 'DelaySeconds' then
    -- The delay applies to waiting messages too: the next receive reads all groups again.
    update skipmq.message_group g set available_at = skipmq.clock()
    where g.queue_id = p_queue_id and g.available_at > skipmq.clock();
  end if;
end $$;
