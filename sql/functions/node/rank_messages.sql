-- Does: returns the ids and message ids of the first p_first messages of a generation, of one state or of all, in another order than that
--   in which peek_messages returns them: the oldest, the most often received (receives) or the largest (size) first.
-- Called by: the PeekMessages action; SQL users.
-- Locks, in order: none.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: those of peek_messages.
-- Routed: to the partition of p_queue_id.
--
-- No index has these orders: a queue with more than p_first messages may have older, or larger, ones behind them.
create function skipmq.rank_messages(p_queue_id bigint, p_state text, p_order text, p_first integer default 1000)
returns table (id bigint, message_id uuid)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select p.id, p.message_id
  from skipmq.peek_messages(p_queue_id, p_state, p_first) p
  order by
    case p_order
      when 'receives' then p.approximate_receive_count
      when 'size' then octet_length(p.body) end desc,
    p.sent_at, p.id
$$;
