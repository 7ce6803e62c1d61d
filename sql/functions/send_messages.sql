-- Does: stores messages in a standard queue: all of them, or none when it raises.
-- Called by: the SendMessage and SendMessageBatch actions, send_message; SQL users.
-- Locks, in order: advisory lock of the first message id, queue row, only with the first message that has a
--   group.
-- Raises: SQ005 when no queue has this incarnation, SQ007 when the queue is FIFO.
-- Relies on index: queue_id, noisy_tenant_pkey, message_visible.
--
-- The arrays run in parallel, one element a message. A null in p_delays takes the queue's delay.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
-- p_again is for a send that may have been done within that time: nothing is stored when one of its messages
-- is there. The lock waits for that send, which may be committed and wait for a standby: nobody sees it then.
-- What was received and deleted since is not known, and stored a second time.
create function skipmq.send_messages(
  p_queue_id integer,
  p_message_ids uuid[],
  p_bodies text[],
  p_attributes text[],
  p_delays integer[],
  p_group_ids text[],
  p_trace_headers text[],
  p_sender text default null,
  p_commit text default null,
  p_again interval default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.write_time();
  v_fifo boolean;
  v_delay integer;
  v_tenants boolean;
  v_noisy text[];
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  perform pg_advisory_xact_lock(uuid_hash_extended(p_message_ids[1], 0));
  select
    q.fifo, q.delay_seconds, q.tenants,
    case when q.tenants then array(
      select t.group_id from skipmq.noisy_tenant t where t.queue_id = p_queue_id and t.until > v_now)
    end
  into v_fifo, v_delay, v_tenants, v_noisy
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is null then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  elsif v_fifo then
    raise exception 'send_messages is for standard queues' using errcode = 'SQ007';
  end if;
  if p_again is not null and exists (
    select from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = any ('{0,1}') and m.group_no is null
      and m.visible_at >= v_now - p_again and m.message_id = any (p_message_ids)
  ) then
    -- A row, so that this commit waits for the standbys that the one before may not have waited for.
    insert into skipmq.queue_delta (at, queue_id, change) values (v_now, p_queue_id, 0);
    return;
  end if;
  if not v_tenants and array_remove(p_group_ids, null) <> '{}' then
    update skipmq.queue q set tenants = true where q.queue_id = p_queue_id and not q.tenants;
  end if;
  insert into skipmq.message (
    id, visible_at, sent_at, enqueued_at, queue_id, shard, message_id, group_id, sender, trace_header, attributes, body)
  select
    nextval('skipmq.message_id_seq'),
    v_now + make_interval(secs => greatest(coalesce(u.delay, v_delay), 0)),
    v_now, v_now, p_queue_id, case when u.group_id = any (v_noisy) then 1 else 0 end, u.message_id, u.group_id, p_sender, u.trace_header, u.attributes, u.body
  from unnest(p_message_ids, p_bodies, p_attributes, p_delays, p_group_ids, p_trace_headers)
    u (message_id, body, attributes, delay, group_id, trace_header);
  insert into skipmq.queue_delta (at, queue_id, change)
  values (v_now, p_queue_id, cardinality(p_message_ids));
end $$;
