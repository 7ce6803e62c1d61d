-- Does: deletes up to p_limit subscriptions that were not confirmed, or not restored, within two days; returns how many.
-- Called by: the janitor.
-- Locks, in order: subscription rows, skipping locked ones; their delivery rows.
-- Raises: nothing.
-- Relies on index: subscription_pending, subscription_pkey, http_delivery_due.
-- Routed: to each partition; the results are added.
create function skipmq.expire_subscriptions(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  v_deleted integer;
begin
  delete from skipmq.subscription s
  where s.ctid = any (array(
    select o.ctid from skipmq.subscription o
    where not o.confirmed and o.created_at <= skipmq.clock() - interval '2 days'
    order by o.created_at limit p_limit for update skip locked));
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;
