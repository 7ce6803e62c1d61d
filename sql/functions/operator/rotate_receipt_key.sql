-- Does: adds a new key for receipt handles, deletes those that receipt_keys no longer returns, and notifies all nodes.
-- Called by: the command line, as the owner.
-- Locks, in order: receipt keys, the row of the cluster.
-- Raises: nothing.
-- Relies on index: receipt_key_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- Not granted to nodes.
create function skipmq.rotate_receipt_key() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from skipmq.receipt_key r
  where not exists (select from skipmq.receipt_keys() k where k.key = r.key);
  -- The newest, even if the clock was set back.
  insert into skipmq.receipt_key (made_at, key)
  select
    greatest(skipmq.clock(), max(r.made_at) + interval '1 microsecond'),
    decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
  from skipmq.receipt_key r;
  perform skipmq.announce_access_keys();
end $$;
