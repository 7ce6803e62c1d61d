-- Does: keeps which kinds of failure have these messages, which were moved to a dead-letter queue.
-- Called by: dead_letter, append_fifo.
-- Locks, in order: an advisory lock of each kind that was not kept within the hour, then its row.
-- Raises: nothing.
-- Relies on index: message_pkey, known_failure_pkey.
--
-- A kind whose lock another transaction has is left to that one: a move must not wait for an application's transaction, nor fail
-- where it does not see that one's row.
create function skipmq.note_failure_kinds(p_queue_id bigint, p_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return;
  end if;
  with unkept as materialized (
    select n.kind, n.id
    from (
      select hashtextextended(skipmq.failure_kind(m.attributes), 0) as kind, min(m.id) as id
      from skipmq.message m
      where m.queue_id = p_queue_id and m.id = any (p_ids)
      group by 1
    ) n
    where n.kind is not null and not exists (
      select from skipmq.known_failure k
      where k.queue_id = p_queue_id and k.kind = n.kind and k.seen_at > p_now - interval '1 hour')
  )
  insert into skipmq.known_failure as k (queue_id, kind, first_at, first_id, seen_at)
  select p_queue_id, u.kind, p_now, u.id, p_now
  from unkept u
  where pg_try_advisory_xact_lock(hashtext('skipmq known failure'), (u.kind & 1023)::integer)
  on conflict (queue_id, kind) do update set
    first_at = case when k.seen_at < excluded.seen_at - interval '7 days' then excluded.first_at else k.first_at end,
    first_id = case when k.seen_at < excluded.seen_at - interval '7 days' then excluded.first_id else k.first_id end,
    seen_at = excluded.seen_at;
end $$;
