-- Does: deletes the messages of parts that stage_messages stored, except those of a batch that send_staged has begun;
--   returns their number.
-- Called by: the driver of Spark's sink `skipmq`, when a job fails; SQL users.
-- Locks, in order: those of check_grant; the row of the stream; staged messages.
-- Raises: what check_grant raises.
-- Relies on index: staged_message_pkey, staged_batch_pkey.
-- Routed: to the partition of p_queue.
create function skipmq.discard_staged(
  p_queue text,
  p_stream text,
  p_parts uuid[],
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_target text := concat_ws('/', p_account, p_region, p_queue);
  v_parts uuid[];
  v_count bigint;
begin
  perform skipmq.check_grant('send', p_queue, p_account, p_region);
  select b.parts into v_parts from skipmq.staged_batch b where b.target = v_target and b.stream = p_stream for update;
  delete from skipmq.staged_message m
  where m.target = v_target and m.stream = p_stream and m.part = any (p_parts)
    and m.part <> all (coalesce(v_parts, '{}'));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
