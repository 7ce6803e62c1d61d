-- Does: deletes up to p_limit deduplication ids and up to p_limit receive attempts that ended more than a minute ago;
--   returns their number.
-- Called by: the janitor.
-- Locks, in order: row of the job (does nothing when it is locked), deduplication rows, attempts, skipping locked ones.
-- Raises: nothing.
-- Relies on index: deduplication_expires, receive_attempt_received.
-- Routed: to each partition; the results are added.
--
-- The minute is for a send that found an id just before it expired: it reads the answer afterwards.
create function skipmq.expire_deduplication(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_ids integer;
  v_attempts integer;
begin
  if not skipmq.hold_job('expire_deduplication') then
    return 0;
  end if;
  delete from skipmq.deduplication d
  where d.ctid = any (array(
    select o.ctid
    from skipmq.deduplication o
    where o.expires_at <= v_now - interval '1 minute'
    order by o.expires_at
    limit p_limit
    for update skip locked));
  get diagnostics v_ids = row_count;
  delete from skipmq.receive_attempt a
  where a.ctid = any (array(
    select o.ctid
    from skipmq.receive_attempt o
    where o.received_at <= v_now - interval '6 minutes'
    order by o.received_at
    limit p_limit
    for update skip locked));
  get diagnostics v_attempts = row_count;
  return v_ids + v_attempts;
end $$;
