-- Does: claims up to p_limit visible messages of a standard queue as receive_messages does, one by one, and passes over those
--   that a damaged page keeps from being read. In each row, low and received_low are the bounds from which receive_messages
--   can read the queue: p_low_watermark and p_received_low, or the end of the damage.
-- Called by: the ReceiveMessage action, after an error of receive_messages that names a damaged page.
-- Locks, in order: those of receive_messages.
-- Raises: what receive_messages raises, but for damage.
-- Relies on index: those of receive_messages.
-- Routed: to the partition of p_queue_id.
--
-- What cannot be read stays where it is: it is received once the page is repaired. The messages that became visible at the
-- same microsecond as a damaged one, by the same statement, are passed over with it, and so is one whose body alone is
-- damaged. Noisy tenants' messages, shard 1, have no bound: of these a damaged one keeps the others waiting. Each try is a subtransaction, so that nodes call this only where they must.
create function skipmq.receive_readable_messages(
  p_queue_id bigint, p_limit integer, p_visibility_timeout integer, p_commit text,
  p_low_watermark timestamptz default null, p_received_low timestamptz default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, next_visible_in interval, low timestamptz, received_low timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_low timestamptz := coalesce(p_low_watermark, '-infinity');
  v_received_low timestamptz := coalesce(p_received_low, '-infinity');
  v_step constant interval := interval '1 microsecond';
  v_row record;
  v_left integer := p_limit;
  v_rounds integer := 0;
begin
  while v_left > 0 and v_rounds < p_limit + 20 loop
    v_rounds := v_rounds + 1;
    v_low := skipmq.readable_from(p_queue_id, 0::smallint, v_low, v_now);
    v_received_low := skipmq.readable_from(p_queue_id, 2::smallint, v_received_low, v_now);
    begin
      select r.* into v_row
      from skipmq.receive_messages(
        p_queue_id, 1, p_visibility_timeout, p_commit, v_low, null, interval '0', null, null, v_received_low) r;
      -- Reads them, where they are in the TOAST table.
      v_row.body := v_row.body || '';
      v_row.attributes := v_row.attributes || '';
    exception
      when data_corrupted or index_corrupted or io_error then
        -- The first row can be read, but not its body, or not what follows it: pass over its time.
        v_low := coalesce((
          select m.visible_at from skipmq.message m
          where m.queue_id = p_queue_id and m.shard = 0 and m.group_no is null
            and m.visible_at >= v_low and m.visible_at <= v_now
          order by m.visible_at limit 1), v_low) + v_step;
        v_received_low := coalesce((
          select m.visible_at from skipmq.message m
          where m.queue_id = p_queue_id and m.shard = 2 and m.group_no is null
            and m.visible_at >= v_received_low and m.visible_at <= v_now
          order by m.visible_at limit 1), v_received_low) + v_step;
        continue;
    end;
    exit when v_row.id is null;
    v_left := v_left - 1;
    id := v_row.id; receive_count := v_row.receive_count; received_at := v_row.received_at;
    message_id := v_row.message_id; body := v_row.body; attributes := v_row.attributes;
    approximate_receive_count := v_row.approximate_receive_count; sent_at := v_row.sent_at;
    first_received_at := v_row.first_received_at; group_id := v_row.group_id; sender := v_row.sender;
    trace_header := v_row.trace_header; dead_letter_source := v_row.dead_letter_source;
    low := nullif(v_low, '-infinity'); received_low := nullif(v_received_low, '-infinity');
    return next;
  end loop;
  if v_left = p_limit then
    id := null; received_at := v_now; low := nullif(v_low, '-infinity'); received_low := nullif(v_received_low, '-infinity');
    -- Without rows the claim has read all that it can; otherwise the next call continues.
    next_visible_in := case when v_rounds = p_limit + 20 then interval '0' end;
    return next;
  end if;
end $$;
