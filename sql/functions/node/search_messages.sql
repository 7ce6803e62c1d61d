-- Does: searches the messages of a generation from a place on, in the order of match_messages, for those that match a
--   filter, in flight or not, until it has searched p_most or p_seconds have passed. Returns the ids and message ids of the first p_limit
--   found, the numbers found and searched, the place where to continue, and whether that was the end.
-- Called by: the SearchMessages action; SQL users.
-- Locks, in order: none.
-- Raises: SQ005 when the generation does not exist, and what check_filter raises.
-- Relies on index: queue_id, and those of match_messages.
-- Routed: to the partition of p_queue_id.
create function skipmq.search_messages(
  p_queue_id bigint, p_body text default null, p_name text default null, p_value text default null,
  p_filter jsonb default null, p_at timestamptz default null, p_number bigint default null,
  p_limit integer default 1000, p_most integer default 200000, p_seconds float8 default 1
) returns table (
  ids bigint[], message_ids uuid[], matched integer, searched integer, at timestamptz, number bigint, finished boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  v_start timestamptz := clock_timestamp();
  v_step record;
begin
  perform skipmq.check_generation(p_queue_id);
  perform skipmq.check_filter(p_filter);
  ids := '{}';
  message_ids := '{}';
  matched := 0;
  searched := 0;
  at := p_at;
  number := p_number;
  finished := false;
  while not finished and searched < p_most
    and clock_timestamp() < v_start + make_interval(secs => p_seconds) loop
    select count(*)::integer as passed, max(m.at) as at, (array_agg(m.number order by m.at desc, m.number desc))[1] as number,
      coalesce(array_agg(m.id order by m.at, m.number) filter (where m.matches), '{}') as ids,
      coalesce(array_agg(m.message_id order by m.at, m.number) filter (where m.matches), '{}') as message_ids
    into v_step
    from skipmq.match_messages(
      p_queue_id, coalesce(at, '-infinity'), coalesce(number, -1), 'infinity', p_body, p_name, p_value, least(1000, p_most - searched),
      p_filter) m;
    finished := v_step.passed = 0;
    if not finished then
      searched := searched + v_step.passed;
      at := v_step.at;
      number := v_step.number;
      matched := matched + cardinality(v_step.ids);
      message_ids := message_ids || v_step.message_ids[1 : p_limit - cardinality(ids)];
      ids := ids || v_step.ids[1 : p_limit - cardinality(ids)];
    end if;
  end loop;
  return next;
end $$;
