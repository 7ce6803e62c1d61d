-- Does: allows a role to send to the queues in p_send and to receive from those in p_receive by SQL: names, or patterns
--   with * for any characters. Makes it a member of skipmq_application, and deletes the grants of roles that were
--   dropped or renamed.
-- Called by: `skipmq sql grant`, as the owner.
-- Locks, in order: the table of grants, against writes.
-- Raises: SQ008 for an invalid queue name or account; SQ010, with the remedy, when the role or skipmq_application does not
--   exist; SQ011 without a queue; 42501 when the owner may not grant skipmq_application.
-- Relies on index: queue_grant_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- The queue need not exist. Existing grants stay. Not granted to nodes.
create function skipmq.grant_queues(
  p_role text, p_send text[] default '{}', p_receive text[] default '{}',
  p_account text default '000000000000', p_region text default 'us-east-1'
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_role oid := (select r.oid from pg_roles r where r.rolname = p_role);
  v_queues text[] := p_send || p_receive;
  v_queue text;
begin
  if v_role is null then
    raise exception 'there is no role %: create role % login password ''…''', p_role, quote_ident(p_role)
      using errcode = 'SQ010';
  elsif to_regrole('skipmq_application') is null then
    raise exception 'there is no role skipmq_application: create role skipmq_application; grant skipmq_application to % with admin option; then run skipmq migrate',
      quote_ident(current_user) using errcode = 'SQ010';
  elsif p_account !~ '^[0-9]{12}$' then
    raise exception 'an account is 12 digits, not %', p_account using errcode = 'SQ008';
  elsif coalesce(v_queues, '{}') = '{}' then
    raise exception 'at least one queue to send to or receive from is required' using errcode = 'SQ011';
  end if;
  foreach v_queue in array v_queues loop
    if (v_queue ~ '^[A-Za-z0-9_*-]{1,80}$' or v_queue ~ '^[A-Za-z0-9_*-]{1,75}[.]fifo$') is not true then
      raise exception '% is not a queue name: it has 1 to 80 letters, digits, - and _, .fifo at the end of a FIFO queue''s, and * for any characters',
        quote_nullable(skipmq.shown(v_queue)) using errcode = 'SQ008';
    end if;
  end loop;

  lock table skipmq.queue_grant in share row exclusive mode;
  delete from skipmq.queue_grant g where pg_get_userbyid(g.role) <> g.role_name;
  insert into skipmq.queue_grant as g (role, role_name, account, region, queue, may_send, may_receive, granted_at, granted_by)
  select v_role, p_role, p_account, p_region, q.queue, bool_or(q.sends), bool_or(not q.sends), skipmq.clock(), session_user
  from (
    select unnest(p_send), true
    union all
    select unnest(p_receive), false
  ) q (queue, sends)
  group by q.queue
  on conflict on constraint queue_grant_pkey do update set
    may_send = g.may_send or excluded.may_send,
    may_receive = g.may_receive or excluded.may_receive,
    granted_at = excluded.granted_at,
    granted_by = excluded.granted_by
  where excluded.may_send > g.may_send or excluded.may_receive > g.may_receive;
  if not exists (
    select from pg_auth_members m where m.roleid = to_regrole('skipmq_application') and m.member = v_role)
  then
    begin
      execute format('grant skipmq_application to %I', p_role);
    exception
      when insufficient_privilege then
        raise exception '% may not grant skipmq_application', current_user
          using errcode = '42501', hint = format('grant skipmq_application to %I with admin option', current_user);
    end;
  end if;
end $$;
