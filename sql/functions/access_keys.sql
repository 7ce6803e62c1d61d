-- Does: gives all access keys but temporary ones that expired a day ago, with the secrets as they are encrypted.
-- Called by: nodes that check signatures, when the keys have changed; the command line.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- A key that is `usable` may sign until it expires: it and the key that it stands for are enabled. It expires
-- with that one at the latest, and has its name and rights. The times are in seconds since 1970.
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
