-- Does: deletes up to p_limit messages that were staged more than a day ago and belong to no batch that send_staged has
--   begun: those of tasks and drivers that failed; and all that were staged more than 14 days ago, the longest that a queue
--   keeps a message; then up to p_limit batches of streams that were not used for 90 days; returns the number of both.
-- Called by: the janitor.
-- Locks, in order: staged messages, then rows of streams, skipping locked ones.
-- Raises: nothing.
-- Relies on index: staged_message_staged, staged_batch_pkey.
-- Routed: to each partition; the results are added.
create function skipmq.expire_staged_messages(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before timestamptz := skipmq.clock() - interval '1 day';
  v_deleted integer;
  v_batches integer;
begin
  delete from skipmq.staged_message m
  where m.ctid = any (array(
    select o.ctid
    from skipmq.staged_message o
    where o.staged_at <= v_before and (o.staged_at <= v_before - interval '13 days' or not exists (
      select from skipmq.staged_batch b where b.target = o.target and b.stream = o.stream and o.part = any (b.parts)))
    order by o.staged_at
    limit p_limit
    for update skip locked));
  get diagnostics v_deleted = row_count;
  delete from skipmq.staged_batch b
  where b.ctid = any (array(
    select o.ctid
    from skipmq.staged_batch o
    where o.used_at <= v_before - interval '89 days'
    limit p_limit
    for update skip locked));
  get diagnostics v_batches = row_count;
  return v_deleted + v_batches;
end $$;
