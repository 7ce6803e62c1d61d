-- Does: empties a queue immediately, including in-flight messages and deduplication ids, by giving its name a new
--   generation; returns that and the number of messages. The totals of the queue continue.
-- Called by: the PurgeQueue action; SQL users.
-- Locks, in order: advisory lock of the generation (waits for SQL users' transactions that sent to it), queue row,
--   paused groups, used rates, generation row.
-- Raises: SQ005 when the generation does not exist, SQ004 within p_cooldown of the last purge.
-- Relies on index: queue_id, paused_group_pkey, receive_rate_pkey, generation_pkey, queue_count_pkey, and those of count_all.
-- Routed: to the partition of p_queue_id.
--
-- What fold_counts adds at the same moment, a second's counts, is left to the totals of the old generation: to wait for it
-- would have the open transaction of one purge stop the counts, and the purges, of all queues.
create function skipmq.purge_queue(p_queue_id bigint, p_cooldown interval default '60 seconds')
returns table (queue_id bigint, messages bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_queue skipmq.queue;
  v_id bigint;
begin
  perform pg_advisory_xact_lock(hashtext('skipmq.queue'), (p_queue_id & 1023)::integer);
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id for update;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  if v_queue.purged_at > v_now - p_cooldown then
    raise exception 'Only one PurgeQueue operation on % is allowed every % seconds.',
      v_queue.name, extract(epoch from p_cooldown)::integer using errcode = 'SQ004';
  end if;
  update skipmq.queue q set queue_id = skipmq.new_queue_id(), purged_at = v_now
  where q.queue_id = p_queue_id
  returning q.queue_id into v_id;
  update skipmq.paused_group g set queue_id = v_id where g.queue_id = p_queue_id;
  update skipmq.receive_rate r set queue_id = v_id where r.queue_id = p_queue_id and r.used_until > v_now;
  update skipmq.generation g
  set retired_at = v_now, retired_as = 'purged', history_mode = v_queue.history_mode
  where g.queue_id = p_queue_id;
  insert into skipmq.generation (queue_id, account, region, name, history_mode, created_at)
  values (v_id, v_queue.account, v_queue.region, v_queue.name, v_queue.history_mode, v_now);
  insert into skipmq.queue_count (
    queue_id, messages, sent, bytes_sent, received, empty_receives, deleted, expired, dead_lettered, redriven, moved_in)
  select
    v_id, 0, c.sent, c.bytes_sent, c.received, c.empty_receives, c.deleted, c.expired, c.dead_lettered, c.redriven,
    c.moved_in
  from skipmq.queue_count c
  where c.queue_id = p_queue_id;
  return query select v_id, greatest(skipmq.count_all(p_queue_id), 0);
end $$;
