-- Does: returns a queue's attributes by their SQS names, with all values as text.
-- Called by: create_queue, get_queue.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.queue_attributes(p_queue skipmq.queue) returns jsonb
language sql immutable
as $$
  select jsonb_build_object(
    'VisibilityTimeout', p_queue.visibility_timeout::text,
    'DelaySeconds', p_queue.delay_seconds::text,
    'MaximumMessageSize', p_queue.maximum_message_size::text,
    'MessageRetentionPeriod', p_queue.message_retention_period::text,
    'ReceiveMessageWaitTimeSeconds', p_queue.receive_message_wait_time_seconds::text,
    'Policy', p_queue.policy,
    'RedrivePolicy', p_queue.redrive_policy,
    'RedriveAllowPolicy', p_queue.redrive_allow_policy,
    'KmsMasterKeyId', p_queue.kms_master_key_id,
    'KmsDataKeyReusePeriodSeconds', p_queue.kms_data_key_reuse_period_seconds::text,
    'SqsManagedSseEnabled', p_queue.sqs_managed_sse_enabled::text,
    'MaximumDelaySeconds', p_queue.maximum_delay_seconds::text,
    'HistoryMode', p_queue.history_mode,
    'BodySchema', p_queue.body_schema,
    'BodySchemaMode', p_queue.body_schema_mode,
    'ReplicationMode', p_queue.replication_mode,
    'DeduplicationSeconds', p_queue.deduplication_seconds::text,
    'RetryBackoff', p_queue.retry_backoff,
    'Paused', p_queue.paused::text,
    'MaximumInFlight', coalesce(p_queue.maximum_in_flight::text, ''),
    'MaximumInFlightPerGroup', coalesce(p_queue.maximum_in_flight_per_group::text, ''),
    'MaximumReceiveRate', coalesce(trim_scale(p_queue.maximum_receive_rate)::text, ''),
    'MaximumReceiveRatePerGroup', coalesce(trim_scale(p_queue.maximum_receive_rate_per_group)::text, ''),
    'ReceiveBurst', coalesce(p_queue.receive_burst::text, ''),
    'PriorityMode', p_queue.priority_mode)
    || case when p_queue.limited then jsonb_build_object('Limited', 'true') else '{}' end
    || case when p_queue.paused then jsonb_build_object(
      'PausedBy', p_queue.paused_by, 'PausedTimestamp', floor(extract(epoch from p_queue.paused_at))::bigint::text)
    else '{}' end
    || case when p_queue.fifo then jsonb_build_object(
      'FifoQueue', 'true',
      'ContentBasedDeduplication', p_queue.content_based_deduplication::text,
      'DeduplicationScope', p_queue.deduplication_scope,
      'FifoThroughputLimit', p_queue.fifo_throughput_limit)
    else '{}' end
$$;
