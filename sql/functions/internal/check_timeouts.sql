-- Does: checks visibility timeouts of SQL users as nodes check those of HTTP requests.
-- Called by: check_receive, change_visibility, for SQL users.
-- Locks, in order: none.
-- Raises: SQ008 when a value is out of range.
-- Relies on index: none.
create function skipmq.check_timeouts(p_timeouts integer[]) returns void
language plpgsql immutable
as $$
declare
  v_timeout integer;
begin
  foreach v_timeout in array p_timeouts loop
    if v_timeout not between 0 and 43200 then
      raise exception 'Value % for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must be >= 0 and <= 43200.',
        v_timeout using errcode = 'SQ008';
    end if;
  end loop;
end $$;
