-- Does: adds what a node has measured to the minutes that are p_ages seconds ago: numbers by kind and label.
-- Called by: nodes, every few seconds with what happened since the last time.
-- Locks, in order: rows of minutes, by key.
-- Raises: nothing.
-- Relies on index: broker_minute_pkey.
-- Routed: to the first partition that answers.
create function skipmq.note_minute(p_ages integer[], p_kinds text[], p_labels text[], p_numbers bigint[]) returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set synchronous_commit = off
as $$
  insert into skipmq.broker_minute as m (account, minute, kind, label, number)
  select '', date_trunc('minute', n.at - make_interval(secs => u.age)), u.kind, u.label, sum(u.number)
  from unnest(p_ages, p_kinds, p_labels, p_numbers) u (age, kind, label, number)
  cross join (select skipmq.clock() as at) n
  group by 2, u.kind, u.label
  order by 2, u.kind, u.label
  on conflict (account, minute, kind, label) do update set number = m.number + excluded.number;
$$;
