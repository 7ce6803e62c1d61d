-- Does: returns the access keys that were revoked, without secrets: the last first. p_account: only those of this account. Times are in
--   seconds since 1970.
-- Called by: the ListAccessKeys action, `skipmq keys list`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to the first partition that answers.
create function skipmq.revoked_access_keys(p_account text default null, p_limit integer default 200)
returns table (key_id text, account text, name text, revoked_at float8, revoked_by text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select k.key_id, k.account, k.name, extract(epoch from k.revoked_at)::float8, k.revoked_by
  from skipmq.revoked_key k
  where k.account = coalesce(p_account, k.account) and k.name is not null
  order by k.revoked_at desc, k.key_id
  limit p_limit
$$;
