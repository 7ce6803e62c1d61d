-- Does: claims messages of a FIFO queue for several receives, up to p_limits of each, and hides them, with the groups
--   they belong to, for p_visibility_timeout seconds (null: the queue's). Each receive, in its place, gets of the group
--   that has waited longest as many as there are, in order, then of the next; no two share a group. A group gives what
--   lies before its first message that is in flight or delayed. Expired and too often received messages are settled on
--   the way, up to some number: then it gives what it has. A receive that gets nothing has one row without an id.
-- Called by: the ReceiveMessage action, receive_fifo_messages.
-- Locks, in order: group rows, skipping those that others hold; message rows, and those of clear_groups.
-- Raises: SQ005 when no queue has this generation, SQ007 when the queue is not FIFO.
-- Relies on index: queue_id, message_group_available, message_group_order.
--
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create function skipmq.claim_fifo_messages(
  p_queue_id integer, p_limits integer[], p_visibility_timeout integer default null, p_commit text default null
) returns table (
  id bigint, receive_count integer, received_at timestamptz, message_id uuid, body text,
  attributes text, approximate_receive_count integer, sent_at timestamptz,
  first_received_at timestamptz, group_id text, sender text, trace_header text,
  dead_letter_source text, sequence_number bigint, deduplication_id text, next_visible_in interval, place integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.clock();
  v_fifo boolean;
  v_max integer;
  v_until timestamptz;
  v_horizon timestamptz;
  v_delay interval;
  v_most integer := 2147483647;
  v_dead_letter_queue integer;
  v_wanted integer[] := '{}'; -- The place of a receive for each message that it wants.
  v_given integer := 0;
  v_most_of_one integer := (select max(u.most) from unnest(p_limits) u (most));
  v_groups bigint[]; v_firsts bigint[];
  v_width integer := (select count(*) from unnest(p_limits) u (most) where u.most > 0); -- A group for each at first.
  -- What the groups can give: each message with the place of its group and of the receive that gets it.
  v_tids tid[]; v_sources integer[]; v_places integer[];
  v_cut integer; -- The group whose rest waits for the receive that has its beginning.
  v_got integer;
  v_effort integer := 5000; -- For messages to be cleared, and, at five times the price, groups that give nothing.
begin
  if p_commit is not null then
    p_commit := set_config('synchronous_commit', p_commit, true);
  end if;
  select
    q.fifo, v_now - make_interval(secs => q.message_retention_period), make_interval(secs => q.delay_seconds),
    v_now + greatest(
      make_interval(secs => coalesce(p_visibility_timeout, q.visibility_timeout)), interval '1 microsecond'),
    q.max_receive_count
  into v_fifo, v_horizon, v_delay, v_until, v_max
  from skipmq.queue q where q.queue_id = p_queue_id;
  if v_fifo is distinct from true then
    perform skipmq.check_generation(p_queue_id, true);
  end if;
  if v_max is not null then
    v_dead_letter_queue := skipmq.dead_letter_queue(p_queue_id);
    v_most := case when v_dead_letter_queue is null then v_most else v_max end;
  end if;
  for n in 1 .. cardinality(p_limits) loop
    v_wanted := v_wanted || array_fill(n, array[p_limits[n]]);
  end loop;

  while v_given < cardinality(v_wanted) loop
    -- In a statement of its own: the next one then sees the messages of these groups as they are.
    select array_agg(h.group_no), array_agg(h.first_number) into v_groups, v_firsts
    from (
      select g.group_no, g.first_number, g.available_at
      from skipmq.message_group g
      where g.queue_id = p_queue_id and g.available_at > '-infinity' and g.available_at <= v_now
      order by g.available_at
      limit v_width
      for no key update skip locked
    ) h;
    exit when v_groups is null;
    select
      coalesce(array_agg(l.tid order by h.place, l.sequence_number), '{}'),
      array_agg(h.place order by h.place, l.sequence_number)
    into v_tids, v_sources
    from unnest(v_groups, v_firsts) with ordinality h (group_no, first_number, place)
    cross join lateral (
      select m.ctid as tid, m.sequence_number, bool_and(
        m.enqueued_at > v_horizon and m.receive_count - m.receive_base < v_most
        and case when m.receive_count = m.receive_base then m.visible_at + v_delay else m.visible_at end <= v_now
      ) over (order by m.sequence_number) as ready
      from (
        select m.ctid, m.sequence_number, m.enqueued_at, m.receive_count, m.receive_base, m.visible_at
        from skipmq.message m
        where m.queue_id = p_queue_id and m.group_no = h.group_no and m.sequence_number >= h.first_number
        order by m.sequence_number
        limit v_most_of_one
      ) m
    ) l
    where l.ready;

    v_places := '{}';
    v_cut := 0;
    v_got := v_given;
    for n in 1 .. cardinality(v_tids) loop
      continue when v_sources[n] = v_cut;
      exit when v_given = cardinality(v_wanted);
      v_given := v_given + 1;
      v_places[n] := v_wanted[v_given];
      if v_wanted[v_given + 1] is distinct from v_wanted[v_given] then
        v_cut := v_sources[n];
      end if;
    end loop;
    v_got := v_given - v_got;
    return query
    with claimed as (
      update skipmq.message m set
        visible_at = v_until,
        receive_count = m.receive_count + 1,
        first_received_at = coalesce(m.first_received_at, v_now)
      from unnest(v_tids, v_places) with ordinality h (tid, place, n)
      where m.ctid = h.tid and h.place is not null
      returning m.*, h.place, h.n
    ), hidden as (
      update skipmq.message_group g set available_at = v_until
      from (select distinct c.group_no from claimed c) c
      where g.queue_id = p_queue_id and g.group_no = c.group_no
    )
    select
      c.id, c.receive_count, v_now, c.message_id, c.body, c.attributes, c.receive_count - c.receive_base, c.sent_at,
      c.first_received_at, c.group_id, c.sender, c.trace_header, c.dead_letter_source, c.sequence_number,
      c.deduplication_id, null::interval, c.place
    from claimed c
    order by c.n;
    exit when v_given = cardinality(v_wanted);
    v_effort := v_effort - skipmq.clear_groups(p_queue_id, v_groups, v_now, v_horizon, v_most, v_dead_letter_queue);
    exit when v_effort <= 0;
    -- As many as give the rest, if they are like those; not many more, which others could use meanwhile.
    v_width := least(
      cardinality(v_wanted) - v_given, 2 * cardinality(v_groups) + 10,
      (cardinality(v_wanted) - v_given) * cardinality(v_groups) / greatest(v_got, 1) + 1);
  end loop;

  if v_given < cardinality(v_wanted) then
    next_visible_in := case when v_effort <= 0 then interval '0' else (
      select min(g.available_at) from skipmq.message_group g where g.queue_id = p_queue_id and g.available_at > v_now
    ) - v_now end;
    received_at := v_now;
    for n in coalesce(v_wanted[v_given], 0) + 1 .. cardinality(p_limits) loop
      continue when p_limits[n] = 0;
      place := n;
      return next;
    end loop;
  end if;
end $$;
