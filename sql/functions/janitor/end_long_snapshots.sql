-- Does: terminates the sessions in this database of skipmq_reader and its members whose transaction is older than p_limit
--   and has a snapshot or a transaction id, since vacuum cannot remove rows behind them. Sessions of superusers and of
--   roles that can act as the schema's owner or as skipmq_node are kept. Returns each session with its role and age.
-- Called by: the janitor.
-- Locks, in order: none.
-- Raises: 42501 when it terminated no session and the function's owner may not see or terminate the sessions of some of
--   these roles: grant it those roles.
-- Relies on index: none.
-- Routed: to each partition; the rows are merged.
create function skipmq.end_long_snapshots(p_limit interval)
returns table (pid integer, role name, application_name text, held interval)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_owner oid := (select n.nspowner from pg_namespace n where n.nspname = 'skipmq');
  v_may_end_all boolean := pg_has_role('pg_signal_backend', 'usage') and pg_has_role('pg_read_all_stats', 'usage');
  v_may_end boolean;
  v_holds boolean;
  v_ended boolean := false;
  v_others name[] := '{}';
  v_names text;
begin
  for pid, role, application_name, held, v_holds, v_may_end in
    select a.pid, r.rolname, a.application_name, clock_timestamp() - a.xact_start,
      a.backend_type = 'client backend' and (a.backend_xmin is not null or a.backend_xid is not null),
      v_may_end_all or pg_has_role(r.oid, 'usage')
    from pg_stat_activity a
    join pg_roles r on r.oid = a.usesysid
    where a.datname = current_database()
      -- A role that does not exist has no members (null); every other role has all superusers as members.
      and pg_has_role(r.oid, to_regrole('skipmq_reader'), 'member')
      and pg_has_role(r.oid, to_regrole('skipmq_node'), 'member') is not true
      and not pg_has_role(r.oid, v_owner, 'member')
  loop
    if not v_may_end then
      v_others := v_others || role;
    elsif v_holds and held > p_limit then
      -- Not in the query, where the planner could evaluate it first, for every session.
      if pg_terminate_backend(pid) then
        v_ended := true;
        return next;
      end if;
    end if;
  end loop;
  if not v_ended and v_others <> '{}' then
    select string_agg(distinct quote_ident(o.role), ', ') into v_names from unnest(v_others) o (role);
    raise exception 'role % may not terminate sessions of %', current_user, v_names
      using errcode = '42501', hint = format('grant %s to %I', v_names, current_user);
  end if;
end $$;
