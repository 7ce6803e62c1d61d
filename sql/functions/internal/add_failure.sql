-- Does: returns the failures of a message with another one, the last 20 of them, each with the number of its receive, its time, who
--   received (null: this session) and p_reason, up to 1,000 characters; unchanged without a reason. One receive has one
--   failure: a later reason takes the place of its earlier one.
-- Called by: record_failure, change_message_visibility, dead_letter_message.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- A redrive counts receives from 1 again, and sets p_sent_at: the failures before it stay.
create function skipmq.add_failure(
  p_failures jsonb, p_sent_at timestamptz, p_receive integer, p_reason text, p_receiver text
) returns jsonb
language sql stable
as $$
  select case when p_reason <> '' then jsonb_path_query_array(
    case
      when (p_failures #>> '{-1,receive}')::integer = p_receive
        and (p_failures #>> '{-1,at}')::timestamptz >= p_sent_at then p_failures - -1
      else coalesce(p_failures, '[]') end
    || jsonb_build_array(jsonb_build_object(
      'receive', p_receive, 'at', skipmq.clock(), 'receiver', left(coalesce(p_receiver, skipmq.session_receiver()), 300),
      'reason', left(p_reason, 1000))),
    '$[last - 19 to last]')
  else p_failures end
$$;
