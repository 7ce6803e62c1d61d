-- Does: finds the history rows of a message id, newest first, from p_place (null: the newest row) back to p_since, reading
--   up to p_blocks blocks for up to a second. The last row has no outcome: its settled_at is the time that the search
--   reached, its place the p_place of the next call; null when no older row can belong to the message.
-- Called by: the GetMessageTimeline action; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none (ranges of ctid), generation_pkey, queue_pkey.
-- Routed: by sql/router/, in one partition.
--
-- The history has no index by message id, which each delete would pay for. Its rows are nearly in the order of time, and a
-- message is settled after it was sent: once a row is found, the search ends at the time of its send.
create function skipmq.find_settled(
  p_message_id uuid, p_since timestamptz default null, p_place text default null, p_blocks integer default 8192
) returns table (
  id bigint, account text, region text, name text, policy text, outcome text, sent_at timestamptz,
  first_received_at timestamptz, settled_at timestamptz, receives integer, node text, place text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_end timestamptz := clock_timestamp() + interval '1 second';
  v_since timestamptz := p_since;
  v_day date := coalesce(split_part(p_place, '/', 1)::date, (skipmq.clock() at time zone 'UTC')::date + 1);
  v_high bigint := nullif(split_part(p_place, '/', 2), '')::bigint;
  v_left bigint := p_blocks;
  v_oldest date;
  v_from timestamptz;
  v_to timestamptz;
  v_low bigint;
  v_blocks bigint;
  v_first timestamptz;
  v_last timestamptz;
begin
  select min(to_date(right(c.relname, 8), 'YYYYMMDD')) into v_oldest
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'skipmq.history'::regclass and c.relname ~ '^history_[0-9]{8}$';
  while v_day >= v_oldest and v_left > 0 loop
    v_from := v_day::timestamp at time zone 'UTC';
    v_to := (v_day + 1)::timestamp at time zone 'UTC';
    exit when v_to <= v_since;
    -- Only the partition of the day is read: the planner excludes the others by settled_at.
    v_blocks := pg_relation_size(coalesce(
      to_regclass('skipmq.history_' || to_char(v_day, 'YYYYMMDD')), 'skipmq.history_default'))
      / current_setting('block_size')::bigint;
    v_high := least(v_high, v_blocks);
    while v_high > 0 and v_left > 0 loop
      v_low := greatest(v_high - least(128, v_left), 0);
      for id, account, region, name, policy, outcome, sent_at, first_received_at, settled_at, receives, node, place in
        select h.id, g.account, g.region, g.name, coalesce(q.policy, ''), h.outcome::text, h.sent_at, h.first_received_at,
          h.settled_at, h.receive_count, h.node, to_char(v_day, 'YYYYMMDD/') || (h.ctid::text::point)[0]::bigint + 1
        from skipmq.history h
        left join skipmq.generation g on g.queue_id = h.queue_id
        left join skipmq.queue q on q.account = g.account and q.region = g.region and q.name = g.name
        where h.settled_at >= v_from and h.settled_at < v_to and h.message_id = p_message_id
          and h.ctid >= format('(%s,0)', v_low)::tid and h.ctid < format('(%s,0)', v_high)::tid
        order by h.settled_at desc
      loop
        return next;
        v_since := greatest(v_since, sent_at);
      end loop;
      select min(h.settled_at), max(h.settled_at) into v_first, v_last
      from skipmq.history h
      where h.settled_at >= v_from and h.settled_at < v_to
        and h.ctid >= format('(%s,0)', v_low)::tid and h.ctid < format('(%s,0)', v_low + 1)::tid;
      v_left := v_left - (v_high - v_low);
      v_high := v_low;
      exit when v_last < v_since;
      if clock_timestamp() > v_end then
        v_left := 0;
      end if;
    end loop;
    exit when v_high > 0 or v_last < v_since;
    v_day := v_day - 1;
    v_high := null;
  end loop;
  return query
  select null::bigint, null, null, null, null, null, null::timestamptz, null::timestamptz, coalesce(v_first, v_from),
    null::integer, null, case
      when v_day >= v_oldest and v_left <= 0 and (v_last < v_since) is not true
        then to_char(v_day, 'YYYYMMDD/') || coalesce(v_high::text, '') end;
end $$;
