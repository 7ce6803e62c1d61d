-- Does: returns what was settled of a generation since p_since: from all blocks of the history since then or, where there
--   are more, from p_runs evenly spaced runs of eight blocks; part is the fraction that was read.
-- Called by: time_in_queue.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none (ranges of ctid).
--
-- The history has no index by queue or time, which each delete would pay for. Its rows are nearly in the order of time: a
-- binary search finds the first block, and the cost is at most that of reading 4 MB a day, however long the history is.
create function skipmq.sample_history(
  p_queue_id bigint, p_since timestamptz, p_until timestamptz, p_runs integer default 64
) returns table (settled_at timestamptz, sent_at timestamptz, first_received_at timestamptz, outcome text, part float8)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_from timestamptz := date_trunc('day', p_since, 'UTC');
  v_to timestamptz;
  v_first timestamptz;
  v_blocks bigint;
  v_low bigint;
  v_high bigint;
  v_middle bigint;
  v_runs bigint;
begin
  while v_from <= p_until loop
    v_to := v_from + interval '1 day';
    -- Only the partition of the day is read: the planner excludes the others by settled_at.
    v_blocks := pg_relation_size(coalesce(
      to_regclass('skipmq.history_' || to_char(v_from at time zone 'UTC', 'YYYYMMDD')), 'skipmq.history_default'))
      / current_setting('block_size')::bigint;
    v_low := 0;
    v_high := v_blocks;
    while v_low < v_high loop
      v_middle := (v_low + v_high) / 2;
      select min(h.settled_at) into v_first
      from skipmq.history h
      where h.settled_at >= v_from and h.settled_at < v_to
        and h.ctid >= format('(%s,0)', v_middle)::tid and h.ctid < format('(%s,0)', v_middle + 1)::tid;
      if v_first < p_since then
        v_low := v_middle + 1;
      else
        v_high := v_middle;
      end if;
    end loop;
    -- Several writers fill blocks concurrently: those just before may have rows of the period.
    v_low := greatest(v_low - 8, 0);
    v_runs := (v_blocks - v_low + 7) / 8;
    for v_n in 0 .. least(v_runs, p_runs) - 1 loop
      v_middle := v_low + 8 * case when v_runs > p_runs then v_n * v_runs / p_runs else v_n end;
      return query
      select h.settled_at, h.sent_at, h.first_received_at, h.outcome::text, least(1, p_runs::float8 / v_runs)
      from skipmq.history h
      where h.settled_at >= greatest(v_from, p_since) and h.settled_at < v_to and h.queue_id = p_queue_id
        and h.ctid >= format('(%s,0)', v_middle)::tid and h.ctid < format('(%s,0)', v_middle + 8)::tid;
    end loop;
    v_from := v_to;
  end loop;
end $$;
