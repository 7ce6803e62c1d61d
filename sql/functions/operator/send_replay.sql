-- Does: sends the next p_limit staged messages of a replay to a queue and marks them as sent, in one transaction; returns
--   their number. Deletes the bodies of sent messages and keeps their ids.
-- Called by: `skipmq analytics replay`, as a node; SQL users.
-- Locks, in order: replay_message rows, then those of hold_generation, and of send_messages or send_fifo_messages.
-- Raises: SQ005 when the generation does not exist, and what send_messages and send_fifo_messages raise.
-- Relies on index: replay_message_unsent, replay_message_pkey, queue_id.
-- Routed: to the partition of p_queue_id.
create function skipmq.send_replay(p_replay text, p_queue_id bigint, p_limit integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sender text := 'skipmq replay ' || p_replay;
  -- Not null, as for a node: messages that were sent before are not checked again.
  v_commit text := current_setting('synchronous_commit');
  v_ids uuid[];
  v_bodies text[];
  v_attributes text[];
  v_groups text[];
  v_traces text[];
begin
  select
    array_agg(m.message_id order by m.place), array_agg(m.body order by m.place),
    array_agg(m.attributes order by m.place), array_agg(m.group_id order by m.place),
    array_agg(m.trace_header order by m.place)
  into v_ids, v_bodies, v_attributes, v_groups, v_traces
  from (
    select r.place, r.message_id, r.body, r.attributes, r.group_id, r.trace_header
    from skipmq.replay_message r
    where r.replay = p_replay and r.sent_at is null
    order by r.place
    limit p_limit
    for update
  ) m;
  if v_ids is null then
    return 0;
  end if;
  perform skipmq.hold_generation(p_queue_id);
  if exists (select from skipmq.queue q where q.queue_id = p_queue_id and q.fifo) then
    perform skipmq.send_fifo_messages(
      p_queue_id, v_ids, v_bodies, v_attributes, v_groups, v_ids::text[], v_traces, v_sender, v_commit);
  else
    perform skipmq.send_messages(
      p_queue_id, v_ids, v_bodies, v_attributes, null, v_groups, v_traces, v_sender, v_commit);
  end if;
  update skipmq.replay_message r
  set sent_at = skipmq.clock(), body = null, attributes = null, group_id = null, trace_header = null
  where r.replay = p_replay and r.message_id = any (v_ids);
  return cardinality(v_ids);
end $$;
