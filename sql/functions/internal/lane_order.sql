-- Does: returns the lanes of a limited queue in the order in which a receive takes messages from them: by priority, in weighted
--   mode by chance; of one priority messages that were received before, then others, and those of noisy tenants last, except in
--   one of ten receives, so that they do not starve.
-- Called by: claim_limited_messages.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.lane_order(p_mode text, p_tenants boolean) returns smallint[]
language plpgsql volatile
as $$
begin
  if p_mode <> 'weighted' and not p_tenants then
    return '{29,19,28,18,27,17,26,16,25,15,24,14,23,13,22,12,21,11,20,10}';
  end if;
  return array(
    select n.lane + p.priority
    from (
      select p as priority, case p_mode when 'weighted' then -ln(1 - random()) / (p + 1) else -p end as key
      from generate_series(0, 9) p
      offset 0 -- One random number a priority.
    ) p
    cross join unnest(case when not p_tenants then '{20,10}' when random() < 0.9 then '{20,10,30}' else '{30,20,10}' end::smallint[])
      with ordinality n (lane, place)
    order by p.key, n.place);
end $$;
