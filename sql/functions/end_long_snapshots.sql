-- Does: ends the sessions in this database of skipmq_reader, and of its members, whose transaction is older than
--   p_limit and has a snapshot or wrote: until they end nothing can be cleared up. Never those of superusers, nor of
--   who may act as the owner of the schema or as skipmq_node. Gives each with its role, and how old it was.
-- Called by: the janitor.
-- Locks, in order: none.
-- Raises: 42501 when there was nobody to end and the owner of the function may not see or end the sessions of some
--   of these roles: grant it those.
-- Relies on index: none.
create function skipmq.end_long_snapshots(p_limit interval)
returns table (pid integer, role name, application_name text, held interval)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_owner oid := (select n.nspowner from pg_namespace n where n.nspname = 'skipmq');
  v_everybody boolean := pg_has_role('pg_signal_backend', 'usage') and pg_has_role('pg_read_all_stats', 'usage');
  v_mine boolean;
  v_holds boolean;
  v_ended boolean := false;
  v_others name[] := '{}';
  v_names text;
begin
  for pid, role, application_name, held, v_holds, v_mine in
    select a.pid, r.rolname, a.application_name, clock_timestamp() - a.xact_start,
      a.backend_type = 'client backend' and (a.backend_xmin is not null or a.backend_xid is not null),
      v_everybody or pg_has_role(r.oid, 'usage')
    from pg_stat_activity a
    join pg_roles r on r.oid = a.usesysid
    where a.datname = current_database()
      -- Of a role that does not exist nobody is a member (null), of all others every superuser is.
      and pg_has_role(r.oid, to_regrole('skipmq_reader'), 'member')
      and pg_has_role(r.oid, to_regrole('skipmq_node'), 'member') is not true
      and not pg_has_role(r.oid, v_owner, 'member')
  loop
    if not v_mine then
      v_others := v_others || role;
    elsif v_holds and held > p_limit then
      -- Not in the query: the planner may test that first, of every session.
      if pg_terminate_backend(pid) then
        v_ended := true;
        return next;
      end if;
    end if;
  end loop;
  if not v_ended and v_others <> '{}' then
    select string_agg(distinct quote_ident(o.role), ', ') into v_names from unnest(v_others) o (role);
    raise exception '% may not end sessions of % that hold up the database', current_user, v_names
      using errcode = '42501', hint = format('grant %s to %I', v_names, current_user);
  end if;
end $$;
