-- Does: sends copies of messages, in any state, to a queue of the same type, as new messages. Returns an outcome for each,
--   by its place in p_ids: copied or missing.
-- Called by: the CopyMessages action; SQL users.
-- Locks, in order: those of send_messages or send_fifo_messages.
-- Raises: SQ005 when one of the generations does not exist, SQ007 when the queues have different types.
-- Relies on index: message_pkey, queue_id.
-- Routed: to the partition of p_queue_id, where p_target must be.
create function skipmq.copy_messages(
  p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_target bigint, p_sender text default null
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_fifo boolean;
  v_copy record;
begin
  v_fifo := skipmq.check_generation(p_queue_id);
  select array_agg(m.id) as ids, array_agg(m.new_id) as new_ids, array_agg(m.body) as bodies,
    array_agg(m.attributes) as attributes, array_agg(m.group_id) as groups, array_agg(m.trace_header) as traces
  into v_copy
  from (
    select m.*, gen_random_uuid() as new_id
    from unnest(p_ids, p_message_ids) with ordinality u (id, message_id, place)
    cross join lateral (
      select m.id, m.body, m.attributes, m.group_id, m.trace_header
      from skipmq.message m
      where m.id = u.id and m.message_id = u.message_id and m.queue_id = p_queue_id
    ) m
    order by u.place
  ) m;
  if v_copy.ids is null then
    null;
  elsif v_fifo then
    perform skipmq.send_fifo_messages(
      p_target, v_copy.new_ids, v_copy.bodies, v_copy.attributes, v_copy.groups, v_copy.new_ids::text[],
      v_copy.traces, p_sender);
  else
    perform skipmq.send_messages(
      p_target, v_copy.new_ids, v_copy.bodies, v_copy.attributes,
      array_fill(null::integer, array[cardinality(v_copy.ids)]), v_copy.groups, v_copy.traces, p_sender);
  end if;
  return query
  select u.place, case when u.id = any (v_copy.ids) then 'copied' else 'missing' end
  from unnest(p_ids) with ordinality u (id, place)
  order by u.place;
end $$;
