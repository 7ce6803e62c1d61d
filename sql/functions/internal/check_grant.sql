-- Does: checks that session_user may send to, or receive from, the named queue: that it is a member of a role with a
--   matching grant, of skipmq_node or of the schema's owner.
-- Called by: granted_queue, stage_messages, discard_staged, before they look up the queue.
-- Locks, in order: under REPEATABLE READ and SERIALIZABLE only, the grant row; skipped when locked, and released by this
--   function.
-- Raises: 42501 with the command that grants the right, whether or not the queue exists; 40001 under REPEATABLE READ and
--   SERIALIZABLE when the grant was changed or revoked since the snapshot.
-- Relies on index: queue_grant_pkey, queue_grant_pattern.
--
-- session_user is the role that logged in: neither SET ROLE nor a security definer function changes it. The escape
-- character is !, since the meaning of a backslash depends on standard_conforming_strings. The collation is explicit,
-- since the arguments may have another one.
create function skipmq.check_grant(p_right text, p_queue text, p_account text, p_region text) returns void
language plpgsql volatile
as $$
declare
  v_grant tid;
  v_command text;
begin
  if pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'skipmq'), 'member')
    or pg_has_role(session_user, to_regrole('skipmq_node'), 'member')
  then
    return;
  end if;
  select f.tid into v_grant
  from (
    select g.ctid as tid, g.role, g.role_name, g.may_send, g.may_receive
    from skipmq.queue_grant g
    where g.account = p_account collate "C" and g.region = p_region collate "C" and g.queue = p_queue collate "C"
    union all
    select g.ctid, g.role, g.role_name, g.may_send, g.may_receive
    from skipmq.queue_grant g
    where g.account = p_account collate "C" and g.region = p_region collate "C" and g.queue like '%*%'
      and p_queue collate "C" like replace(replace(g.queue, '_', '!_'), '*', '%') escape '!'
  ) f
  where case p_right when 'send' then f.may_send when 'receive' then f.may_receive end
    and pg_has_role(session_user, f.role, 'member')
    and pg_get_userbyid(f.role) = f.role_name
  limit 1;
  if v_grant is null then
    select string_agg(
      case when w.word collate "C" ~ '^[A-Za-z0-9_.-]+$' then w.word else quote_literal(w.word) end, ' ' order by w.place)
    into v_command
    from unnest(
      array['skipmq', 'sql', 'grant', session_user::text, '--' || p_right, skipmq.shown(p_queue)]
      || case when p_account collate "C" <> '000000000000' then array['--account', skipmq.shown(p_account)] end
      || case when p_region collate "C" <> 'us-east-1' then array['--region', skipmq.shown(p_region)] end
    ) with ordinality w (word, place);
    raise exception 'role % may not % the queue %: the owner of the schema grants it by `%`', session_user,
      case p_right when 'send' then 'send to' else 'receive from' end, skipmq.shown(p_queue), v_command
      using errcode = '42501';
  end if;
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    -- The snapshot may still show a revoked grant; locking its row raises 40001. The subtransaction releases the lock, so
    -- that no session can block a revocation.
    begin
      perform from skipmq.queue_grant g where g.ctid = v_grant for share skip locked;
      raise sqlstate 'SQ000';
    exception
      when sqlstate 'SQ000' then null;
    end;
  end if;
end $$;
