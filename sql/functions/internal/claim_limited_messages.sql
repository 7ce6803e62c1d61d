-- Does: claims messages of a standard queue that has or had limits, priorities or paused groups, for receive_messages: no more
--   than its limits and those of the groups leave room for, and in the order of its priorities. What is in flight is counted,
--   not remembered: a message whose consumer died leaves room when its visibility timeout ends. Without a message it returns
--   one row without an id.
-- Called by: receive_messages.
-- Locks, in order: those of hold_limits; message rows, skipping locked ones; those of clear_head and use_rates.
-- Raises: what hold_limits raises.
-- Relies on index: queue_id, message_visible, message_lane, receive_rate_pkey, paused_group_pkey.
--
-- The messages in flight are counted by a statement that begins when the lock is held, so that it sees all claims. Of each
-- lane the first 1,000 visible messages are read; where these are all of groups that are full, walk_lanes goes from group to
-- group. What arrives from another queue, or was there before the queue was limited, is in the shards 0 to 2 first.
create function skipmq.claim_limited_messages(
  p_queue_id bigint, p_limit integer, p_timeout integer, p_dead_letter_queue bigint, p_max_receives integer,
  p_waits boolean, p_within interval
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz, first_received_at timestamptz, group_id text,
  sender text, trace_header text, dead_letter_source text, arrival_count integer, next_visible_in interval, scan_start timestamptz
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
  v_queue skipmq.queue;
  v_now timestamptz; v_until timestamptz; v_horizon timestamptz; v_next timestamptz;
  v_left integer := p_limit; v_got integer; v_rounds integer := 0;
  v_keys text[]; v_most integer[]; v_full text[]; -- Groups with less room than others, how much, and those without.
  v_burst integer; v_default integer; -- The room of all other groups; null: no limit.
  v_lanes smallint[];
  v_tids tid[]; v_groups text[]; v_taken text[] := '{}';
  v_after text; -- Where walk_lanes begins; null: the first messages are read.
begin
  if not skipmq.hold_limits(p_queue_id, p_waits) then
    received_at := skipmq.clock();
    next_visible_in := interval '10 ms';
    return next;
    return;
  end if;
  select q.* into v_queue from skipmq.queue q where q.queue_id = p_queue_id;
  v_now := skipmq.write_time();
  v_until := v_now + greatest(make_interval(secs => p_timeout), interval '1 microsecond');
  v_horizon := v_now - make_interval(secs => v_queue.message_retention_period);
  perform skipmq.move_to_lanes(v_queue, v_now);
  if num_nonnulls(v_queue.maximum_in_flight, v_queue.maximum_in_flight_per_group) > 0 then
    select least(v_left, v_queue.maximum_in_flight - coalesce(sum(c.number), 0)),
      array_agg(c.group_id) filter (where c.most is not null), array_agg(c.most) filter (where c.most is not null)
    into v_left, v_keys, v_most
    from (
      select m.group_id, count(*)::integer as number,
        case when m.group_id is not null then v_queue.maximum_in_flight_per_group - count(*)::integer end as most
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = any ('{1,2,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39}') and m.group_no is null
        and m.visible_at > v_now and m.receive_count > m.receive_base
      group by m.group_id
    ) c;
  end if;
  if v_queue.maximum_receive_rate is not null then
    select r.allowed, r.next_at into v_left, v_next from skipmq.rate_allowance(v_queue, v_now, v_left) r;
  end if;
  v_burst := coalesce(v_queue.receive_burst, greatest(ceil(v_queue.maximum_receive_rate_per_group), 1));
  v_default := least(v_queue.maximum_in_flight_per_group, case when v_queue.maximum_receive_rate_per_group > 0 then v_burst end);
  if v_default is not null or exists (select from skipmq.paused_group g where g.queue_id = p_queue_id) then
    select array_agg(a.key), array_agg(least(a.most, v_default)), array_agg(a.key) filter (where a.most <= 0) into v_keys, v_most, v_full
    from skipmq.group_allowances(v_queue, v_now, v_burst, v_keys, v_most) a;
  end if;
  v_lanes := skipmq.lane_order(v_queue.priority_mode, v_queue.tenants);

  while v_left > 0 loop
    select array_agg(h.tid order by h.place, h.visible_at), array_agg(h.group_id order by h.place, h.visible_at)
    into v_tids, v_groups
    from skipmq.choose_messages(
      p_queue_id, v_lanes, v_now, v_horizon, p_max_receives, v_left, v_keys, v_most, v_full, v_default, v_after) h;
    v_got := coalesce(cardinality(v_tids), 0);
    if v_got = 0 then
      if v_full is not null and v_taken = '{}' and (v_after is null or v_after > '') and exists (
        select
        from unnest(v_lanes) s (shard)
        cross join lateral (
          select from skipmq.message m
          where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null and m.visible_at <= v_now
          order by m.visible_at offset 1000 limit 1
        ) m)
      then
        v_after := case when v_after is null then v_full[1 + floor(random() * cardinality(v_full))] else '' end;
        continue;
      end if;
      v_rounds := v_rounds + 1;
      exit when v_rounds > 10 or (
        select sum(skipmq.clear_head(
          p_queue_id, s.shard, '-infinity', v_now, v_horizon, p_dead_letter_queue, p_max_receives, null))
        from unnest(v_lanes) s (shard)
        where exists (select from skipmq.message m where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null and m.visible_at <= v_now)
      ) > 0 is not true;
      v_after := null;
      continue;
    end if;
    return query
    update skipmq.message m set
      visible_at = case when v_queue.retry_backoff = '' then v_until
        else v_until + skipmq.retry_delay(v_queue.retry_backoff::jsonb, m.receive_count - m.receive_base + 1) end,
      shard = case when m.shard < 20 then m.shard + 10 else m.shard end,
      receive_count = least(m.receive_count, 2147483645) + 1,
      receive_base = least(m.receive_base, 2147483645),
      first_received_at = coalesce(m.first_received_at, v_now)
    from unnest(v_tids) c (tid)
    where m.ctid = c.tid
    returning
      m.id, m.receive_count, v_now, m.message_id, m.body, m.attributes,
      m.receive_count - m.receive_base, m.sent_at, m.first_received_at, m.group_id, m.sender,
      m.trace_header, m.dead_letter_source, m.arrival_count, null::interval, null::timestamptz;
    v_left := v_left - v_got;
    v_taken := v_taken || v_groups;
    if v_default is not null then
      select array_agg(a.key), array_agg(a.most), array_agg(a.key) filter (where a.most <= 0) into v_keys, v_most, v_full
      from (
        select g.key, coalesce(k.most, v_default) - g.number as most
        from (select g.key, count(*)::integer as number from unnest(v_groups) g (key) where g.key is not null group by g.key) g
        left join unnest(v_keys, v_most) k (key, most) on k.key = g.key
        union all
        select k.* from unnest(v_keys, v_most) k (key, most) where k.key = any (v_groups) is not true
      ) a;
    end if;
  end loop;
  if cardinality(v_taken) > 0 then
    if num_nonnulls(v_queue.maximum_receive_rate, v_queue.maximum_receive_rate_per_group) > 0 then
      perform skipmq.use_rates(v_queue, v_now, v_taken);
    end if;
    return;
  end if;
  received_at := v_now;
  next_visible_in := case when v_rounds > 10 then interval '0' else least(v_next, (
    select min(n.visible_at)
    from unnest(skipmq.shards(p_queue_id)) s (shard)
    cross join lateral (
      select m.visible_at
      from skipmq.message m
      where m.queue_id = p_queue_id and m.shard = s.shard and m.group_no is null
        and m.visible_at > v_now and m.visible_at <= v_now + coalesce(p_within, interval '20 years')
      order by m.visible_at limit 1
    ) n), (
    select min(u.at)
    from skipmq.receive_rate r
    cross join lateral (select r.used_until - make_interval(secs => ((v_burst - 1) / v_queue.maximum_receive_rate_per_group)::float8)) u (at)
    where r.queue_id = p_queue_id and r.key <> '' and r.used_until > v_now and u.at > v_now), (
    select min(g.until) from skipmq.paused_group g where g.queue_id = p_queue_id and g.until > v_now)) - v_now end;
  return next;
end $$;
