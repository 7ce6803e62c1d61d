-- Does: stores messages that a replay will send; returns how many are new. Skips messages that the replay already has or
--   has sent itself.
-- Called by: `skipmq analytics replay`, as a node; SQL users.
-- Locks, in order: replay_message rows.
-- Raises: nothing.
-- Relies on index: replay_message_pkey.
-- Routed: to the partition of p_target.
create function skipmq.stage_replay(
  p_replay text,
  p_target text,
  p_places bigint[],
  p_message_ids uuid[],
  p_source_ids uuid[],
  p_group_ids text[],
  p_trace_headers text[],
  p_attributes text[],
  p_bodies text[]
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count bigint;
begin
  insert into skipmq.replay_message (
    replay, target, place, message_id, source_id, group_id, trace_header, attributes, body)
  select
    p_replay, p_target, u.place, u.message_id, u.source_id, u.group_id, u.trace_header, u.attributes, u.body
  from unnest(p_places, p_message_ids, p_source_ids, p_group_ids, p_trace_headers, p_attributes, p_bodies)
    u (place, message_id, source_id, group_id, trace_header, attributes, body)
  where not exists (
    select from skipmq.replay_message r where r.replay = p_replay and r.message_id = u.source_id)
  on conflict do nothing;
  get diagnostics v_count = row_count;
  return v_count;
end $$;
