-- Does: returns all access keys except temporary ones that expired more than a day ago; secrets are encrypted.
-- Called by: nodes that verify signatures, when the keys have changed; the command line.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to the first partition that answers.
--
-- A key is `usable` while it and its parent are enabled. A temporary key has the name and rights of its parent and
-- expires with it at the latest. Times are in seconds since 1970.
create function skipmq.access_keys()
returns table (
  key_id text, account text, name text, parent text, token_digest bytea, secret bytea, master_key_id text,
  usable boolean, created_at float8, expires_at float8, last_used_at float8, rights text
)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select k.key_id, k.account, coalesce(p.name, k.name), k.parent, k.token_digest, k.secret, k.master_key_id,
    k.enabled and coalesce(p.enabled, true),
    extract(epoch from k.created_at)::float8, extract(epoch from least(k.expires_at, p.expires_at))::float8,
    extract(epoch from k.last_used_at)::float8, coalesce(p.rights, k.rights)::text
  from skipmq.access_key k
  left join skipmq.access_key p on p.key_id = k.parent
  where k.parent is null or k.expires_at > skipmq.clock() - interval '1 day'
  order by k.created_at, k.key_id
$$;
