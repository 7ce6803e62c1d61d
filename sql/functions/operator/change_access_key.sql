-- Does: enables or disables an access key, or sets its lifetime or rights; null leaves the value unchanged.
-- Called by: the command line, as the owner.
-- Locks, in order: the access key, the row of the cluster.
-- Raises: SQ010 when the key does not exist.
-- Relies on index: access_key_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- Not granted to nodes.
create function skipmq.change_access_key(
  p_key_id text, p_enabled boolean, p_lifetime interval, p_rights jsonb default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.access_key k set
    enabled = coalesce(p_enabled, k.enabled),
    expires_at = coalesce(skipmq.clock() + p_lifetime, k.expires_at),
    rights = coalesce(p_rights, k.rights)
  where k.key_id = p_key_id;
  if not found then
    raise exception 'access key % does not exist', p_key_id using errcode = 'SQ010';
  end if;
  perform skipmq.announce_access_keys();
end $$;
