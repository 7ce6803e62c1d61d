-- Does: checks a message sent by SQL, except its attributes, as nodes check HTTP requests.
-- Called by: check_messages.
-- Locks, in order: none.
-- Raises: with the nodes' error texts, SQ008 for an invalid delay, id or trace header and for more than p_most bytes of
--   body and attributes; SQ009 for characters in the body that XML 1.0 does not allow; SQ011 without a body, or without
--   a group where p_fifo.
-- Relies on index: none.
create function skipmq.check_message(
  p_fifo boolean, p_most integer, p_longest_delay integer, p_body text, p_attribute_bytes bigint, p_delay integer, p_group_id text,
  p_deduplication_id text, p_trace_header text
) returns void
language plpgsql immutable
as $$
begin
  if p_body is null or p_body = '' then
    raise exception 'The request must contain the parameter MessageBody.' using errcode = 'SQ011';
  elsif skipmq.has_forbidden_character(p_body) then
    raise exception 'Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF'
      using errcode = 'SQ009';
  end if;
  if p_delay not between 0 and p_longest_delay then
    raise exception 'Value % for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= %.',
      p_delay, p_longest_delay using errcode = 'SQ008';
  elsif not skipmq.is_identifier(p_group_id) then
    raise exception 'Value % for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.',
      skipmq.shown(p_group_id) using errcode = 'SQ008';
  elsif p_trace_header = '' then
    raise exception 'Message (system) attribute ''AWSTraceHeader'' must contain a non-empty value of type ''String''.'
      using errcode = 'SQ008';
  elsif length(p_trace_header) > 2048 then
    raise exception 'Message (system) attribute ''AWSTraceHeader'' can be at most 2048 characters long.'
      using errcode = 'SQ008';
  elsif skipmq.has_forbidden_character(p_trace_header) then
    raise exception 'Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF'
      using errcode = 'SQ008';
  elsif not skipmq.is_identifier(p_deduplication_id) then
    raise exception 'Value % for parameter MessageDeduplicationId is invalid. Reason: MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.',
      skipmq.shown(p_deduplication_id) using errcode = 'SQ008';
  elsif p_fifo and p_group_id is null then
    raise exception 'The request must contain the parameter MessageGroupId.' using errcode = 'SQ011';
  elsif p_fifo and p_deduplication_id is null then
    raise exception 'The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly'
      using errcode = 'SQ008';
  elsif octet_length(p_body) + coalesce(p_attribute_bytes, 0) > p_most then
    raise exception 'One or more parameters are invalid. Reason: Message must be shorter than % bytes.', p_most
      using errcode = 'SQ008';
  end if;
end $$;
