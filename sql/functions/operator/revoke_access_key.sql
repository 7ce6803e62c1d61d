-- Does: deletes an access key with its secret and its temporary credentials; their names are kept, with who revoked them (p_by).
-- Called by: the command line, as the owner.
-- Locks, in order: the access key and its temporary ones, the row of the cluster.
-- Raises: SQ010 when the key does not exist.
-- Relies on index: access_key_pkey, access_key_parent, revoked_key_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- Not granted to nodes.
create function skipmq.revoke_access_key(p_key_id text, p_by text default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
begin
  insert into skipmq.revoked_key (key_id, account, name, revoked_at, revoked_by)
  select k.key_id, k.account, coalesce(k.name, p.name), v_now, left(p_by, 80)
  from skipmq.access_key k
  left join skipmq.access_key p on p.key_id = k.parent
  where k.key_id = p_key_id or k.parent = p_key_id
  on conflict do nothing;
  delete from skipmq.access_key k where k.key_id = p_key_id;
  if not found then
    raise exception 'access key % does not exist', p_key_id using errcode = 'SQ010';
  end if;
  perform skipmq.announce_access_keys();
end $$;
