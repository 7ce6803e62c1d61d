-- Does: claims messages of a FIFO queue that has or had limits or paused groups, for claim_fifo_messages, which it calls: no
--   more than the limits leave room for, and none of groups that are paused or have used up their rate.
-- Called by: claim_fifo_messages.
-- Locks, in order: those of hold_limits; those of claim_fifo_messages; those of use_rates.
-- Raises: what hold_limits and claim_fifo_messages raise.
-- Relies on index: queue_id, receive_rate_pkey, paused_group_pkey, and those of claim_fifo_messages and fifo_in_flight.
create function skipmq.claim_limited_groups(
  p_queue_id bigint, p_limits integer[], p_visibility_timeout integer, p_commit text, p_receivers text[]
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz, first_received_at timestamptz, group_id text,
  sender text, trace_header text, dead_letter_source text, arrival_count integer,
  sequence_number bigint, deduplication_id text, next_visible_in interval, place integer
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
  v_held boolean := skipmq.hold_limits(p_queue_id, p_commit is null);
  v_queue skipmq.queue;
  v_now timestamptz := skipmq.clock();
  v_next timestamptz; -- When there is room again.
  v_room integer := (select sum(u.most) from unnest(p_limits) u (most));
  v_limits integer[] := '{}';
  v_burst integer; v_groups bigint[]; v_rooms integer[]; v_closed bigint[];
  v_taken text[] := '{}';
begin
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id;
  if not v_held then
    v_room := 0;
    v_next := v_now + interval '10 ms';
  end if;
  if v_queue.maximum_in_flight is not null and v_held then
    v_room := least(v_room, v_queue.maximum_in_flight - (select count(*) from skipmq.fifo_in_flight(p_queue_id, v_now)));
  end if;
  if v_queue.maximum_receive_rate is not null and v_held then
    select r.allowed, r.next_at into v_room, v_next from skipmq.rate_allowance(v_queue, v_now, v_room) r;
  end if;
  v_burst := case when v_queue.maximum_receive_rate_per_group is not null
    then coalesce(v_queue.receive_burst, greatest(ceil(v_queue.maximum_receive_rate_per_group), 1)) end;
  select array_agg(a.key::bigint), array_agg(a.most), coalesce(array_agg(a.key::bigint) filter (where a.most <= 0), '{}')
  into v_groups, v_rooms, v_closed
  from skipmq.group_allowances(v_queue, v_now, v_burst) a;
  for n in 1 .. cardinality(p_limits) loop
    v_limits[n] := greatest(least(p_limits[n], v_room), 0);
    v_room := v_room - v_limits[n];
    if v_limits[n] = 0 and p_limits[n] > 0 then
      received_at := v_now;
      next_visible_in := v_next - v_now;
      place := n;
      return next;
    end if;
  end loop;
  for id, receive_count, received_at, message_id, body, attributes, approximate_receive_count, sent_at, first_received_at, group_id,
    sender, trace_header, dead_letter_source, arrival_count, sequence_number, deduplication_id, next_visible_in, place
  in
    select c.*
    from skipmq.claim_fifo_messages(
      p_queue_id, v_limits, p_visibility_timeout, p_commit, p_receivers, v_closed, v_groups, v_rooms, v_burst) c
  loop
    if id is not null then
      v_taken := v_taken || group_id;
    end if;
    return next;
  end loop;
  if v_taken <> '{}' then
    perform skipmq.use_rates(v_queue, v_now, v_taken);
  end if;
end $$;
