-- Does: returns p_from or, where a damaged page keeps the first entry of a shard of a standard queue from being read, the
--   time of the next entry up to p_to that can be; without one, just after p_to.
-- Called by: receive_readable_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- An error does not say which time the entry has. Halves of the time find it, to the microsecond. From there steps of
-- doubling length find an entry that can be read, and halves of the last step the first such: of the intact messages whose
-- times are among those of damaged ones some may be passed over.
create function skipmq.readable_from(p_queue_id bigint, p_shard smallint, p_from timestamptz, p_to timestamptz)
returns timestamptz
language plpgsql volatile
as $$
declare
  v_unit constant interval := interval '1 microsecond';
  -- No message is visible earlier: retention takes 14 days at most, a delay 15 minutes.
  v_start timestamptz := greatest(p_from, p_to - interval '30 days');
  -- In microseconds after v_start.
  v_end bigint := (1000000 * extract(epoch from p_to - v_start))::bigint;
  v_low bigint := -1;
  v_high bigint := v_end;
  v_probe bigint;
  v_step bigint := 1;
begin
  if v_end < 0 or skipmq.is_readable(p_queue_id, p_shard, p_from, p_to) then
    return p_from;
  end if;
  -- The first damaged entry is at v_high: up to v_low there is none.
  while v_high - v_low > 1 loop
    v_probe := (v_low + v_high) / 2;
    if skipmq.is_readable(p_queue_id, p_shard, v_start, v_start + v_probe * v_unit) then
      v_low := v_probe;
    else
      v_high := v_probe;
    end if;
  end loop;
  v_low := v_high;
  -- From v_low the next entry is damaged, from v_high it can be read.
  loop
    v_high := v_low + v_step;
    exit when v_high > v_end or skipmq.is_readable(p_queue_id, p_shard, v_start + v_high * v_unit, p_to);
    v_low := v_high;
    v_step := 2 * v_step;
  end loop;
  v_high := least(v_high, v_end + 1);
  while v_high - v_low > 1 loop
    v_probe := (v_low + v_high) / 2;
    if skipmq.is_readable(p_queue_id, p_shard, v_start + v_probe * v_unit, p_to) then
      v_high := v_probe;
    else
      v_low := v_probe;
    end if;
  end loop;
  return v_start + v_high * v_unit;
end $$;
