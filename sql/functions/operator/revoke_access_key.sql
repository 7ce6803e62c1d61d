-- Does: deletes an access key with its secret and its temporary credentials.
-- Called by: the command line, as the owner.
-- Locks, in order: the access key and its temporary ones, the row of the cluster.
-- Raises: SQ010 when the key does not exist.
-- Relies on index: access_key_pkey, access_key_parent.
-- Routed: not: commands run it on each partition itself.
--
-- Not granted to nodes.
create function skipmq.revoke_access_key(p_key_id text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from skipmq.access_key k where k.key_id = p_key_id;
  if not found then
    raise exception 'access key % does not exist', p_key_id using errcode = 'SQ010';
  end if;
  perform skipmq.announce_access_keys();
end $$;
