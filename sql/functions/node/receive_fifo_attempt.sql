-- Does: receives from a FIFO queue with a ReceiveRequestAttemptId: returns what receive_fifo_messages returns or, for an
--   attempt of the last five minutes whose messages were not deleted or changed since, the same messages and receipts
--   again, hidden for p_visibility_timeout seconds from now.
-- Called by: the ReceiveMessage action; SQL users.
-- Locks, in order: advisory lock of the attempt, then those of hold_limits, lock_groups or receive_fifo_messages.
-- Raises: SQ005 when the generation does not exist, SQ007 when the queue is not FIFO; for an SQL user
--   (p_commit is null) SQ008 when the attempt id is invalid, and what check_receive raises.
-- Relies on index: receive_attempt_pkey, message_pkey, and those of the functions it calls.
-- Routed: to the partition of p_queue_id.
--
-- Source: SQS API Reference, ReceiveMessage, ReceiveRequestAttemptId.
create function skipmq.receive_fifo_attempt(
  p_queue_id bigint,
  p_attempt_id text,
  p_limit integer default 1,
  p_visibility_timeout integer default null,
  p_commit text default null,
  p_receiver text default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, arrival_count integer, sequence_number bigint, deduplication_id text, next_visible_in interval
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_until timestamptz;
  v_backoff boolean; -- Redeliveries are delayed further.
  v_attempt skipmq.receive_attempt;
  v_groups bigint[];
begin
  if p_commit is null then
    p_limit := skipmq.check_receive(p_limit, p_visibility_timeout);
    if skipmq.is_identifier(p_attempt_id) is not true then
      raise exception 'Value % for parameter ReceiveRequestAttemptId is invalid. Reason: ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length.',
        skipmq.shown(p_attempt_id) using errcode = 'SQ008';
    end if;
  end if;
  perform pg_advisory_xact_lock(
    hashtext('skipmq.attempt'), (hashtextextended(p_attempt_id, p_queue_id) & 1023)::integer);
  perform skipmq.hold_limits(p_queue_id, true);
  v_now := skipmq.clock();
  select a.* into v_attempt
  from skipmq.receive_attempt a
  where a.queue_id = p_queue_id and a.attempt_id = p_attempt_id
    and a.received_at > v_now - interval '5 minutes' and a.hidden_until > v_now;
  if found then
    v_groups := skipmq.lock_groups(p_queue_id, v_attempt.ids);
    select v_now + greatest(
      make_interval(secs => coalesce(p_visibility_timeout, q.visibility_timeout)), interval '1 microsecond'),
      q.retry_backoff <> ''
    into v_until, v_backoff
    from skipmq.queue q where q.queue_id = p_queue_id;
    if v_until is not null and (
      select count(*) = cardinality(v_attempt.ids)
      from unnest(v_attempt.ids, v_attempt.receive_counts) u (id, receive_count)
      join skipmq.message m on m.id = u.id and m.queue_id = p_queue_id
        and m.receive_count = u.receive_count and (m.visible_at = v_attempt.hidden_until or v_backoff and m.visible_at > v_attempt.hidden_until))
    then
      update skipmq.receive_attempt a set hidden_until = v_until
      where a.queue_id = p_queue_id and a.attempt_id = p_attempt_id;
      update skipmq.message m set visible_at = v_until
      where m.queue_id = p_queue_id and m.id = any (v_attempt.ids);
      perform skipmq.refresh_groups(p_queue_id, v_groups);
      return query
      select
        m.id, m.receive_count, v_attempt.received_at, m.message_id, m.body, m.attributes,
        m.receive_count - m.receive_base, m.sent_at, m.first_received_at, m.group_id, m.sender,
        m.trace_header, m.dead_letter_source, m.arrival_count, m.sequence_number, m.deduplication_id, null::interval
      from unnest(v_attempt.ids) with ordinality u (id, place)
      join skipmq.message m on m.id = u.id and m.queue_id = p_queue_id
      order by u.place;
      return;
    end if;
  end if;

  return query
  with given as materialized (
    select r.* from skipmq.receive_fifo_messages(p_queue_id, p_limit, p_visibility_timeout, p_commit, p_receiver) r
  ), noted as (
    insert into skipmq.receive_attempt as a (queue_id, attempt_id, received_at, hidden_until, ids, receive_counts)
    select
      p_queue_id, p_attempt_id, g.received_at,
      g.received_at + greatest(
        make_interval(secs => coalesce(p_visibility_timeout, q.visibility_timeout)), interval '1 microsecond'),
      array_agg(g.id), array_agg(g.receive_count)
    from given g
    join skipmq.queue q on q.queue_id = p_queue_id
    where g.id is not null
    group by g.received_at, q.visibility_timeout
    on conflict on constraint receive_attempt_pkey do update set
      received_at = excluded.received_at,
      hidden_until = excluded.hidden_until,
      ids = excluded.ids,
      receive_counts = excluded.receive_counts
  )
  select g.* from given g;
end $$;
