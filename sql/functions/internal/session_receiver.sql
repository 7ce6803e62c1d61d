-- Does: returns this SQL session as it is kept of who receives a message or fails with it: sql, role, address and program.
-- Called by: receive_fifo_messages, add_failure.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.session_receiver() returns text
language sql stable
as $$
  select concat_ws('/', 'sql', session_user, coalesce(host(inet_client_addr()), 'local'), current_setting('application_name'))
$$;
