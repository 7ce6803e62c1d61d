-- Does: records that this session receives from a queue by SQL, at most every ten seconds.
-- Called by: receive_message.
-- Locks, in order: the session's own row.
-- Raises: nothing.
-- Relies on index: consumer_pkey.
create function skipmq.note_consumer(p_queue_id bigint) returns void
language plpgsql volatile
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_setting text := 'skipmq.noted_' || p_queue_id;
  v_noted text := current_setting(v_setting, true);
begin
  -- In a setting of the session, so that most receives write no row.
  if v_noted ~ '^[0-9]{1,12}$' and extract(epoch from v_now) - v_noted::bigint between 0 and 10 then
    return;
  end if;
  insert into skipmq.consumer as c (
    queue_id, process, caller, address, application, since, last_receive_at, waiting, seen_at)
  values (
    p_queue_id, 'session ' || pg_backend_pid(), session_user, coalesce(host(inet_client_addr()), 'local'),
    current_setting('application_name'), v_now, v_now, 0, v_now)
  on conflict (queue_id, process, caller, address) do update set
    since = case when c.application = excluded.application then c.since else excluded.since end,
    application = excluded.application, last_receive_at = excluded.last_receive_at, seen_at = excluded.seen_at;
  perform set_config(v_setting, floor(extract(epoch from v_now))::bigint::text, false);
end $$;
