-- Does: returns the keys that authenticate receipt handles, shared by all nodes, newest first: the newest one, and those
--   replaced less than 12 hours ago, the maximum visibility timeout. The age is in seconds.
-- Called by: nodes, when they start, when a key is replaced, and every ten seconds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: receipt_key_pkey.
-- Routed: to the first partition that answers.
--
-- The two further minutes are for nodes that issue handles with a replaced key until they have read the new one.
create function skipmq.receipt_keys() returns table (key bytea, age float8)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select k.key, extract(epoch from skipmq.clock() - k.made_at)::float8
  from (
    select r.key, r.made_at, lag(r.made_at) over (order by r.made_at desc) as replaced_at
    from skipmq.receipt_key r
  ) k
  where k.replaced_at is null or k.replaced_at > skipmq.clock() - interval '12 hours 2 minutes'
  order by k.made_at desc
$$;
