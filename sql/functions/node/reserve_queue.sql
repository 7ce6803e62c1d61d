-- Does: reserves a name, at its home, for a queue in another partition; returns the partition that has the name: p_partition,
--   the one for which it was reserved before, or this one when a queue of the name exists here.
-- Called by: routers, for queues whose dead-letter queue is in another partition than their home; SQL users.
-- Locks, in order: the advisory lock of the name, which create_queue takes too.
-- Raises: nothing.
-- Relies on index: queue_pkey, queue_place_pkey.
-- Routed: not: routers call it.
create function skipmq.reserve_queue(p_account text, p_region text, p_name text, p_partition integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_own integer := (select c.partition from skipmq.cluster c);
begin
  perform pg_advisory_xact_lock(hashtext('skipmq queue'), hashtext(format('%s:%s:%s', p_account, p_region, p_name)) & 1023);
  if p_partition = v_own or exists (
    select from skipmq.queue q where q.account = p_account and q.region = p_region and q.name = p_name)
  then
    return coalesce(skipmq.queue_place(p_account, p_region, p_name), v_own);
  end if;
  insert into skipmq.queue_place (account, region, name, partition)
  values (p_account, p_region, p_name, p_partition)
  on conflict do nothing;
  return skipmq.queue_place(p_account, p_region, p_name);
end $$;
