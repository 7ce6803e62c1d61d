-- Does: deletes messages of a FIFO queue that are still in flight with the receive given by p_receive_counts, and writes a
--   history row for each. Returns an outcome for each, by its place in the arrays: deleted, missing (settled before, or
--   purged), expired (visible again, received again, or in the dead-letter queue) or held (unchanged, since another
--   transaction has locked the group and p_waits is false).
-- Called by: the DeleteMessage and DeleteMessageBatch actions; SQL users.
-- Locks, in order: group rows by number, message rows.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is not FIFO.
-- Relies on index: message_pkey, queue_id, and those of dead_letter_queue, lock_groups, settle and
--   refresh_groups.
-- Routed: to the partition of p_queue_id.
--
-- p_message_ids: see delete_messages.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it unchanged.
create function skipmq.delete_fifo_messages(
  p_queue_id bigint, p_ids bigint[], p_receive_counts integer[], p_message_ids uuid[], p_commit text default null,
  p_waits boolean default true
) returns table (place bigint, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_groups bigint[];
  v_outcomes text[];
  v_tids tid[];
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  v_groups := skipmq.lock_groups(p_queue_id, p_ids, p_waits);
  select array_agg(f.outcome order by f.place), array_agg(f.tid) filter (where f.outcome = 'deleted')
  into v_outcomes, v_tids
  from (
    select u.place, m.tid, case
      when m.found and not p_waits and m.group_no = any (v_groups) is not true then 'held'
      when m.receive_count = u.receive_count and m.visible_at > v_now then 'deleted'
      when m.found or exists (
        select from skipmq.message d
        where d.queue_id = skipmq.dead_letter_queue(p_queue_id) and d.id = u.id and d.message_id = u.message_id
      ) then 'expired'
      -- Settled, or purged and not cleared yet.
      else 'missing'
    end as outcome
    from unnest(p_ids, p_receive_counts, p_message_ids) with ordinality u (id, receive_count, message_id, place)
    left join lateral (
      select true as found, m.ctid as tid, m.group_no, m.receive_count, m.visible_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.id = u.id and m.message_id = u.message_id
    ) m on true
  ) f;
  if not exists (select from skipmq.queue q where q.queue_id = p_queue_id and q.fifo) then
    perform skipmq.check_generation(p_queue_id, true);
  end if;
  if v_tids is not null then
    -- No other transaction changes these rows: it would lock their groups before.
    perform skipmq.settle(v_tids, 'deleted');
  end if;
  perform skipmq.refresh_groups(p_queue_id, v_groups);
  return query
  select u.place, u.outcome from unnest(v_outcomes) with ordinality u (outcome, place) order by u.place;
end $$;
