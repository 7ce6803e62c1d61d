-- Does: returns the lane of a message that was never received: 10, plus its message attribute SkipMQ.Priority where the queue
--   has priorities.
-- Called by: send_messages, send_to_queues, claim_limited_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.lane_of(p_mode text, p_attributes text) returns smallint
language plpgsql immutable
as $$
declare
  v_priority text;
begin
  if p_mode = 'none' or p_attributes is null or strpos(p_attributes, 'SkipMQ.Priority') = 0 then
    return 10;
  end if;
  v_priority := p_attributes::jsonb -> 'SkipMQ.Priority' ->> 'StringValue';
  return 10 + case when v_priority ~ '^[0-9]$' then v_priority::smallint else 0 end;
end $$;
