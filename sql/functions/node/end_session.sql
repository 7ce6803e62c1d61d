-- Does: records that a session of the console, which would last for another p_lasts (at most a day), was signed out, and
--   notifies all nodes.
-- Called by: nodes that verify signatures.
-- Locks, in order: the ended session, the row of the cluster.
-- Raises: 23514 when p_digest is not a digest.
-- Relies on index: ended_session_pkey.
-- Routed: to each partition.
create function skipmq.end_session(p_digest bytea, p_lasts interval) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into skipmq.ended_session (digest, until)
  values (p_digest, skipmq.clock() + least(p_lasts, interval '1 day'))
  on conflict do nothing;
  if found then
    perform skipmq.announce_access_keys();
  end if;
end $$;
