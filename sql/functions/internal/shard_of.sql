-- Does: returns the shard of a standard queue for a tenant's messages: 1 while the tenant is noisy, otherwise 0.
-- Called by: send_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: noisy_tenant_pkey.
create function skipmq.shard_of(p_queue_id bigint, p_group_id text, p_now timestamptz) returns smallint
language plpgsql stable
as $$
begin
  return (
    select count(*)
    from skipmq.noisy_tenant t
    where t.queue_id = p_queue_id and t.group_id = p_group_id and t.until > p_now);
end $$;
