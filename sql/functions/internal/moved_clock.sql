-- Does: returns the clock's time, shifted by the session setting skipmq.clock_offset.
-- Called by: clock, when the setting is set.
-- Locks, in order: none.
-- Raises: 42501 when session_user is neither a member of the schema's owner nor has the right SET on the setting.
-- Relies on index: none.
--
-- Every role may set the setting, and none has that right unless a superuser grants it, as for the roles of a test server:
-- these are to go by its clock, without any right of the owner's.
create function skipmq.moved_clock() returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not (
    has_parameter_privilege(session_user, 'skipmq.clock_offset', 'set')
    or pg_has_role(session_user, (select nspowner from pg_namespace where nspname = 'skipmq'), 'member'))
  then
    raise exception 'only the owner of the schema may set skipmq.clock_offset' using errcode = '42501';
  end if;
  return clock_timestamp() + current_setting('skipmq.clock_offset')::interval;
end $$;
