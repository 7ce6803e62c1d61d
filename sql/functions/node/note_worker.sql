-- Does: records a worker process of a node, with its host, release, uptime and figures; without figures, that it has stopped.
-- Called by: nodes, every few seconds and at the end.
-- Locks, in order: the worker's own row.
-- Raises: nothing.
-- Relies on index: worker_pkey.
-- Routed: to each partition.
create function skipmq.note_worker(
  p_process text, p_host text, p_release text, p_uptime interval, p_figures jsonb
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set synchronous_commit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
begin
  if p_figures is null then
    delete from skipmq.worker w where w.process = p_process;
    return;
  end if;
  insert into skipmq.worker as w (process, host, release, started_at, seen_at, figures)
  values (p_process, p_host, p_release, v_now - p_uptime, v_now, p_figures)
  on conflict (process) do update set seen_at = excluded.seen_at, figures = excluded.figures;
end $$;
