-- Does: returns the worker processes of all nodes by host, with uptime and the seconds since the last heartbeat.
-- Called by: the ListNodes action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to the first partition that answers.
create function skipmq.workers(p_limit integer default 500)
returns table (process text, host text, release text, uptime float8, seen float8, figures jsonb)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    w.process, w.host, w.release, extract(epoch from w.seen_at - w.started_at)::float8,
    extract(epoch from n.at - w.seen_at)::float8, w.figures
  from skipmq.worker w cross join (select skipmq.clock() as at) n
  order by w.host, w.started_at, w.process
  limit p_limit;
$$;
