-- Does: replaces the encrypted secret of an access key by the same secret under another master key; returns whether it
--   still was p_old.
-- Called by: the command line, as the owner.
-- Locks, in order: the access key, the row of the cluster.
-- Raises: nothing.
-- Relies on index: access_key_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- Not granted to nodes.
create function skipmq.reencrypt_access_key(p_key_id text, p_old bytea, p_secret bytea, p_master_key_id text)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update skipmq.access_key k set secret = p_secret, master_key_id = p_master_key_id
  where k.key_id = p_key_id and k.secret = p_old;
  if not found then
    return false;
  end if;
  perform skipmq.announce_access_keys();
  return true;
end $$;
