-- Does: gives the one clock of the broker, the database's. Tests may move it by the session setting
--   skipmq.clock_offset (an interval), which only members of the schema's owner may use.
-- Called by: every function that compares times, once each; write_time.
-- Locks, in order: none.
-- Raises: 42501 when somebody else sets skipmq.clock_offset.
-- Relies on index: none.
create function skipmq.clock() returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_offset text := current_setting('skipmq.clock_offset', true);
begin
  if v_offset is null or v_offset = '' then
    return clock_timestamp();
  end if;
  if not pg_has_role(session_user, (select nspowner from pg_namespace where nspname = 'skipmq'), 'member') then
    raise exception 'only the owner of the schema may move the clock' using errcode = '42501';
  end if;
  return clock_timestamp() + v_offset::interval;
end $$;
