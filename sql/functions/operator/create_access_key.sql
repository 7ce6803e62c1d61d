-- Does: stores an access key, encrypted by the caller; deletes temporary ones that expired more than a day ago.
-- Called by: the command line, as the owner.
-- Locks, in order: access keys by id, the row of the cluster.
-- Raises: 23505 when the key id exists, 23514 for an invalid account or name, SQ010 when the parent does not exist, is
--   disabled, has expired or is temporary.
-- Relies on index: access_key_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- A key without a name is a user named by the key id; one without rights has the role admin. Temporary credentials have
-- the name and rights of their parent. Not granted to nodes.
create function skipmq.create_access_key(
  p_key_id text, p_account text, p_name text, p_secret bytea, p_master_key_id text,
  p_parent text default null, p_token_digest bytea default null, p_lifetime interval default null,
  p_rights jsonb default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_account text := p_account;
begin
  if p_parent is not null then
    select k.account into v_account from skipmq.access_key k
    where k.key_id = p_parent and k.parent is null and k.enabled and coalesce(k.expires_at > v_now, true)
    for key share;
    if not found then
      raise exception 'access key % does not exist or is not enabled', p_parent using errcode = 'SQ010';
    end if;
  end if;
  delete from skipmq.access_key k where k.parent is not null and k.expires_at < v_now - interval '1 day';
  insert into skipmq.access_key
    (key_id, account, name, parent, token_digest, rights, secret, master_key_id, created_at, expires_at)
  values
    (p_key_id, v_account, case when p_parent is null then coalesce(p_name, p_key_id) end, p_parent, p_token_digest,
     case when p_parent is null then coalesce(p_rights, '{"role": "admin"}') end, p_secret, p_master_key_id, v_now,
     v_now + p_lifetime);
  perform skipmq.announce_access_keys();
end $$;
