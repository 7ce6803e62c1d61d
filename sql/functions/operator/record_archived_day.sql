-- Does: records that an export has all p_rows rows of a day of the history, all of transactions below p_to, which
--   it has just read back and compared. Returns false, and deletes an earlier record, when the day is not over, transactions below
--   p_to may still be open or the day has other rows. Returns true for a day that was dropped. The archive is the lake that
--   recorded last: returns false for another one, unless it p_replaces the archive, whose records of days that are not
--   dropped it deletes once a day is recorded.
-- Called by: the export, as a node; SQL users.
-- Locks, in order: archived_day row.
-- Raises: nothing.
-- Relies on index: archived_day_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- It counts the day's rows itself, so that no day is dropped on the export's word alone. It counts once: rows settled in
-- the day afterwards are found by drop_history_partitions.
create function skipmq.record_archived_day(
  p_day date, p_rows bigint, p_to bigint, p_lake text default '', p_place text default '', p_replaces boolean default false
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
  v_from timestamptz := p_day::timestamp at time zone 'UTC';
  v_until timestamptz := (p_day + 1)::timestamp at time zone 'UTC';
  v_rows bigint;
  v_late bigint;
begin
  if not p_replaces and exists (
    select from (select a.lake from skipmq.archived_day a order by a.archived_at desc, a.day desc limit 1) a where a.lake <> p_lake)
  then
    return false;
  end if;
  update skipmq.archived_day a set archived_at = skipmq.clock(), place = p_place
  where a.day = p_day and a.rows = p_rows and a.lake = p_lake;
  if found then
    return true;
  end if;
  delete from skipmq.archived_day a where a.day = p_day and a.lake = p_lake and not a.dropped;
  if skipmq.clock() < v_until or pg_snapshot_xmin(pg_current_snapshot())::text::bigint < p_to then
    return false;
  end if;
  select count(*) filter (where h.xid < p_to), count(*) filter (where h.xid >= p_to)
  into v_rows, v_late
  from skipmq.history h
  where h.settled_at >= v_from and h.settled_at < v_until;
  if v_rows <> p_rows or v_late > 0 then
    return false;
  end if;
  insert into skipmq.archived_day as a (day, rows, to_xid, archived_at, lake, place)
  values (p_day, p_rows, p_to, skipmq.clock(), p_lake, p_place)
  on conflict (day) do update set rows = excluded.rows, to_xid = excluded.to_xid, archived_at = excluded.archived_at,
    lake = excluded.lake, place = excluded.place;
  -- What they have is not compared from now on.
  delete from skipmq.archived_day a where a.lake <> p_lake and not a.dropped;
  return true;
end $$;
