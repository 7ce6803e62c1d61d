-- Does: returns the JSON that a queue gets of a published message, in the order and the format of SNS: the part before the
--   addresses, which each subscription has of its own, and the part after them. heads: the first for each protocol of p_texts.
-- Called by: publish_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.notification(
  p_topic_arn text, p_message_id uuid, p_sequence_number bigint, p_subject text, p_message text, p_attributes text,
  p_now timestamptz, p_version text, p_texts jsonb, out head text, out heads jsonb, out tail text
)
language sql stable
as $$
  select
    p.front || to_json(p_message) || p.back,
    (select jsonb_object_agg(t.key, p.front || to_json(t.value) || p.back) from jsonb_each_text(p_texts) t),
    concat(
      (select E',\n  "MessageAttributes" : {\n' || string_agg(format(
          '    %s : {"Type":%s,"Value":%s}', to_json(a.key), a.value -> 'DataType',
          coalesce(a.value -> 'StringValue', a.value -> 'BinaryValue')), E',\n') || E'\n  }'
        from json_each(p_attributes::json) a),
      E'\n}')
  from (select
    concat(
      E'{\n  "Type" : "Notification",\n  "MessageId" : "', p_message_id, '"',
      E',\n  "SequenceNumber" : "' || (10000000000000000000 + p_sequence_number) || '"',
      E',\n  "TopicArn" : "', p_topic_arn, '"',
      E',\n  "Subject" : ' || to_json(p_subject),
      E',\n  "Message" : ') as front,
    concat(
      E',\n  "Timestamp" : "', to_char(p_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), '"',
      -- Messages of FIFO topics have no signature on AWS either.
      case when p_sequence_number is null then
        E',\n  "SignatureVersion" : "' || p_version || E'",\n  "Signature" : "RVhBTVBMRQ=="' end) as back) p
$$;
