-- Does: returns the current generation of a queue, by name: the first argument of the message functions.
-- Called by: hold_queue, receive_message, delete_message, change_message_visibility, return_message,
--   dead_letter_message; SQL users.
-- Locks, in order: none.
-- Raises: SQ001 when the queue does not exist.
-- Relies on index: queue_pkey.
create function skipmq.queue_id(
  p_name text,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id integer;
begin
  select q.queue_id into v_id from skipmq.queue q
  where q.account = p_account and q.region = p_region and q.name = p_name;
  if v_id is null then
    raise exception 'The specified queue does not exist.'
      using errcode = 'SQ001', hint = format('select skipmq.create_queue(%L)', p_name);
  end if;
  return v_id;
end $$;
