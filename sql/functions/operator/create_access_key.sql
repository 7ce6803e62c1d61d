-- Does: stores an access key, encrypted by the caller; deletes temporary ones that expired more than a day ago.
-- Called by: the command line, as the owner.
-- Locks, in order: the advisory lock of the name, access keys by id, the row of the cluster.
-- Raises: 23505 when the key id exists, 23514 for an invalid account or name, SQ010 when the parent does not exist, is
--   disabled, has expired or is temporary, SQ008 when another key of the account has the name, unless it replaces one.
-- Relies on index: access_key_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- A key without a name is a user named by the key id; one without rights has the role admin. Temporary credentials have
-- the name and rights of their parent. A key that p_replaces another keeps its name. Not granted to nodes.
create function skipmq.create_access_key(
  p_key_id text, p_account text, p_name text, p_secret bytea, p_master_key_id text,
  p_parent text default null, p_token_digest bytea default null, p_lifetime interval default null,
  p_rights jsonb default null, p_replaces text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_account text := p_account;
  v_name text := coalesce(p_name, p_key_id);
  v_other text;
begin
  if p_parent is not null then
    select k.account into v_account from skipmq.access_key k
    where k.key_id = p_parent and k.parent is null and k.enabled and coalesce(k.expires_at > v_now, true)
    for key share;
    if not found then
      raise exception 'access key % does not exist or is not enabled', p_parent using errcode = 'SQ010';
    end if;
  else
    perform pg_advisory_xact_lock(hashtext('skipmq access key'), hashtext(format('%s:%s', p_account, v_name)) & 1023);
    select k.key_id into v_other from skipmq.access_key k
    where k.account = p_account and k.name = v_name and k.key_id <> p_key_id and p_replaces is null limit 1;
    if found then
      raise exception 'account % has a key named %: rotate or revoke %, or choose another name', p_account, v_name, v_other
        using errcode = 'SQ008';
    end if;
  end if;
  delete from skipmq.access_key k where k.parent is not null and k.expires_at < v_now - interval '1 day';
  insert into skipmq.access_key
    (key_id, account, name, parent, token_digest, rights, secret, master_key_id, created_at, expires_at)
  values
    (p_key_id, v_account, case when p_parent is null then v_name end, p_parent, p_token_digest,
     case when p_parent is null then coalesce(p_rights, '{"role": "admin"}') end, p_secret, p_master_key_id, v_now,
     v_now + p_lifetime);
  perform skipmq.announce_access_keys();
end $$;
