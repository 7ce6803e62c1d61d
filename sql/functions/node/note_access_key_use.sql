-- Does: records the time at which access keys were used, at most once a minute for each.
-- Called by: nodes that verify signatures, for many requests together.
-- Locks, in order: access keys, skipping locked ones.
-- Raises: nothing.
-- Relies on index: access_key_pkey.
-- Routed: to each partition.
create function skipmq.note_access_key_use(p_key_ids text[]) returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  update skipmq.access_key k set last_used_at = skipmq.clock()
  where k.key_id in (
    select u.key_id from skipmq.access_key u
    where u.key_id = any (p_key_ids)
      and coalesce(u.last_used_at < skipmq.clock() - interval '1 minute', true)
    for no key update skip locked)
$$;
