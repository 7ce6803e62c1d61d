-- Does: ends the sessions of the role skipmq_reader that have held a snapshot of this server for longer than
--   p_limit, of this database and others: until they end nothing can be cleared up. Gives each, and for how
--   long it held its snapshot.
-- Called by: the janitor.
-- Locks, in order: none.
-- Raises: 42501 when the owner of the schema may not see or end them: grant it skipmq_reader.
-- Relies on index: none.
create function skipmq.end_long_snapshots(p_limit interval)
returns table (pid integer, application_name text, held interval)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if not exists (select from pg_stat_activity a where a.usename = 'skipmq_reader') then
    return;
  end if;
  if not pg_has_role(current_user, 'skipmq_reader', 'usage') then
    raise exception '% may not end sessions of skipmq_reader that hold up the database', current_user
      using errcode = '42501', hint = format('grant skipmq_reader to %I', current_user);
  end if;
  for pid, application_name, held in
    select a.pid, a.application_name, clock_timestamp() - a.xact_start
    from pg_stat_activity a
    where a.usename = 'skipmq_reader' and a.backend_xmin is not null
      and a.xact_start < clock_timestamp() - p_limit
  loop
    -- Not in the query: the planner may test that first, of every session.
    if pg_terminate_backend(pid) then
      return next;
    end if;
  end loop;
end $$;
