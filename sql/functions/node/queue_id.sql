-- Does: returns the current generation of a queue, by name: the first argument of the message functions.
-- Called by: granted_queue, hold_queue, stage_messages; SQL users.
-- Locks, in order: none.
-- Raises: SQ001 when the queue does not exist; the hint names other places with a queue of that name, to members of the
--   owner and of skipmq_node: others need not know where queues are.
-- Relies on index: queue_pkey.
-- Routed: to the partition of p_name.
create function skipmq.queue_id(
  p_name text,
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1')
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id bigint;
  v_hint text := format('select skipmq.create_queue(%L)', p_name);
  v_others text;
begin
  select q.queue_id into v_id from skipmq.queue q
  where q.account = p_account and q.region = p_region and q.name = p_name;
  if v_id is null then
    if exists (
      select from skipmq.queue_place e where e.account = p_account and e.region = p_region and e.name = p_name)
      or exists (
        select from skipmq.relocation l where l.account = p_account and l.region = p_region and l.name = p_name)
    then
      v_hint := 'it is in another partition: connect there, or call the function in the router''s database';
    elsif p_name ~ '^arn:' or p_name ~ '/' then
      v_hint := 'write its name, and its account and region as p_account => …, p_region => …';
    elsif pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'skipmq'), 'member')
      or pg_has_role(session_user, to_regrole('skipmq_node'), 'member')
    then
      select format('there is one in %s: set p_account and p_region', string_agg(
        format('account %s, region %s', p.account, p.region), '; '))
      into v_others
      from (select * from skipmq.queue_places(p_name) limit 3) p having count(*) > 0;
    end if;
    raise exception 'queue % does not exist in account %, region %',
      skipmq.shown(p_name), skipmq.shown(p_account), skipmq.shown(p_region)
      using errcode = 'SQ001', hint = coalesce(v_others, v_hint);
  end if;
  return v_id;
end $$;
