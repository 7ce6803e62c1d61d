-- Does: deletes the given rows, which the caller has locked, and leaves a row of history for each as the
--   history mode of their queue says; gives their number.
-- Called by: expire_visible, clear_retired.
-- Locks, in order: none but what the caller holds.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), incarnation_pkey, queue_id.
create function skipmq.settle(p_tids tid[], p_outcome text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_xid bigint := pg_current_xact_id()::text::bigint;
  v_count integer;
begin
  with gone as (
    delete from skipmq.message m where m.ctid = any (p_tids) returning m.*
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, v_xid, g.id, g.queue_id, g.receive_count - g.receive_base,
      octet_length(g.body), coalesce(octet_length(g.attributes), 0), g.message_id, p_outcome, g.group_id,
      g.deduplication_id, g.sender, g.trace_header,
      case when i.mode = 'full' then g.attributes end,
      case when i.mode = 'full' then g.body end,
      nullif(current_setting('application_name'), '')
    from gone g
    cross join lateral (
      select coalesce(
        (select q.history_mode from skipmq.queue q where q.queue_id = g.queue_id),
        (select r.history_mode from skipmq.incarnation r where r.queue_id = g.queue_id)) as mode
    ) i
    where i.mode <> 'off'
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change)
    select v_now, g.queue_id, -count(*) from gone g group by g.queue_id
  )
  select count(*) into v_count from gone;
  return v_count;
end $$;
