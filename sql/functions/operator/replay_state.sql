-- Does: returns the target of a replay (null: nothing was staged), the number of messages still to send, their bytes and
--   groups, and the number of messages sent.
-- Called by: `skipmq analytics replay`, as a node; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: replay_message_pkey.
-- Routed: not: commands run it on each partition itself.
create function skipmq.replay_state(
  p_replay text, out target text, out to_send bigint, out bytes bigint, out groups bigint, out sent bigint
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    min(r.target), count(*) filter (where r.sent_at is null),
    coalesce(sum(octet_length(r.body) + octet_length(r.attributes)), 0)::bigint,
    count(distinct r.group_id) filter (where r.sent_at is null), count(*) filter (where r.sent_at is not null)
  from skipmq.replay_message r
  where r.replay = p_replay;
$$;
