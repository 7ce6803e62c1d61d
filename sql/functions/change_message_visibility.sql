-- Does: hides a received message of the named queue, standard or FIFO, for p_visibility_timeout seconds from now (0: makes
--   it visible). Returns false when the message was settled or, in a FIFO queue, is visible or was received again.
-- Called by: SQL users.
-- Locks, in order: those of check_grant, then of change_visibility or change_fifo_visibility.
-- Raises: what check_grant and check_timeouts raise; SQ001 when the queue does not exist, SQ011 without a timeout.
-- Relies on index: queue_pkey, and those of the functions it calls.
create function skipmq.change_message_visibility(
  p_queue text,
  p_id bigint,
  p_receive_count integer,
  p_visibility_timeout integer,
  p_account text default '000000000000',
  p_region text default 'us-east-1'
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue_id integer;
begin
  perform skipmq.check_grant('receive', p_queue, p_account, p_region);
  v_queue_id := skipmq.queue_id(p_queue, p_account, p_region);
  if p_visibility_timeout is null then
    raise exception 'The request must contain the parameter VisibilityTimeout.' using errcode = 'SQ011';
  elsif p_queue collate "C" like '%.fifo' then
    return (
      select c.outcome = 'changed'
      from skipmq.change_fifo_visibility(
        v_queue_id, array[p_id], array[p_receive_count], null, array[p_visibility_timeout]) c);
  end if;
  return (
    select c.outcome = 'changed'
    from skipmq.change_visibility(
      v_queue_id, array[p_id], array[p_receive_count], null, array[p_visibility_timeout]) c);
end $$;
