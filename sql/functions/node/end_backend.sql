-- Does: cancels the statement of a client's session of this server, or with p_terminate ends the session. p_began is its start: a
--   process number is used again. Returns what became of it: done, missing, or refused where the schema's owner may not, or may not
--   see its start: grant it pg_signal_backend and pg_monitor, or the session's role; that of a superuser only a superuser ends.
-- Called by: the EndSession action.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: not: nodes run it on each partition itself.
create function skipmq.end_backend(p_pid integer, p_began timestamptz, p_terminate boolean) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_may_end boolean;
  v_is_done boolean;
begin
  select s.may_end into v_may_end
  from skipmq.database_sessions(null) s
  where s.pid = p_pid and (s.began = p_began or s.began is null);
  if v_may_end is null then
    return 'missing';
  elsif not v_may_end then
    return 'refused';
  elsif p_terminate then
    v_is_done := pg_terminate_backend(p_pid);
  else
    v_is_done := pg_cancel_backend(p_pid);
  end if;
  return case when v_is_done then 'done' else 'missing' end;
end $$;
