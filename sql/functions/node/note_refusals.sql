-- Does: adds numbers of refused requests to the current minute, each of a queue, caller and error.
-- Called by: nodes, every few seconds with those since the last time.
-- Locks, in order: rows of refusals, by key.
-- Raises: nothing.
-- Relies on index: refusal_pkey.
-- Routed: to the first partition that answers.
create function skipmq.note_refusals(
  p_accounts text[], p_regions text[], p_queues text[], p_callers text[], p_errors text[], p_numbers bigint[]
) returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set synchronous_commit = off
as $$
  insert into skipmq.refusal as r (minute, account, region, queue, caller, error, number)
  select date_trunc('minute', n.at), u.account, u.region, u.queue, u.caller, u.error, u.number
  from unnest(p_accounts, p_regions, p_queues, p_callers, p_errors, p_numbers)
    u (account, region, queue, caller, error, number)
  cross join (select skipmq.clock() as at) n
  order by u.account, u.region, u.queue, u.caller, u.error
  on conflict (account, region, queue, caller, error, minute) do update set number = r.number + excluded.number;
$$;
