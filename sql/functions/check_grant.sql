-- Does: checks that the session's user may send to, or receive from, the queue of a name: that it is a member of a role
--   with a grant of it, of skipmq_node, or of the schema's owner.
-- Called by: the functions for applications, which take a queue by name, before they look for the queue.
-- Locks, in order: the grant, skipped when others hold it, for the instant of the check; only in a transaction with one
--   snapshot for all statements.
-- Raises: 42501, with the command that grants it, the same whether there is such a queue or not; 40001 when the
--   transaction has one snapshot for all statements and the grant was changed or revoked since.
-- Relies on index: queue_grant_pkey, queue_grant_pattern.
--
-- session_user is who has logged in: neither SET ROLE nor a function with the rights of its owner changes it.
-- Escaped by !, not by a backslash: a session that turns standard_conforming_strings off changes what that means. The
-- collation is named, since the caller's arguments may have one of their own.
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
    select g.ctid as tid, g.role, g.may_send, g.may_receive
    from skipmq.queue_grant g
    where g.account = p_account collate "C" and g.region = p_region collate "C" and g.queue = p_queue collate "C"
    union all
    select g.ctid, g.role, g.may_send, g.may_receive
    from skipmq.queue_grant g
    where g.account = p_account collate "C" and g.region = p_region collate "C" and g.queue like '%*%'
      and p_queue collate "C" like replace(replace(g.queue, '_', '!_'), '*', '%') escape '!'
  ) f
  where case p_right when 'send' then f.may_send when 'receive' then f.may_receive end
    and pg_has_role(session_user, f.role, 'member')
  limit 1;
  if v_grant is null then
    select string_agg(
      case when w.word collate "C" ~ '^[A-Za-z0-9_.-]+$' then w.word else quote_literal(w.word) end, ' ' order by w.place)
    into v_command
    from unnest(
      array['skipmq', 'grant', session_user::text, '--' || p_right, skipmq.shown(p_queue)]
      || case when p_account collate "C" <> '000000000000' then array['--account', skipmq.shown(p_account)] end
      || case when p_region collate "C" <> 'us-east-1' then array['--region', skipmq.shown(p_region)] end
    ) with ordinality w (word, place);
    raise exception 'role % may not % the queue %: the owner of the schema grants it by `%`', session_user,
      case p_right when 'send' then 'send to' else 'receive from' end, skipmq.shown(p_queue), v_command
      using errcode = '42501';
  end if;
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    -- Its snapshot may still have a grant that is revoked; the row's lock tells. It goes with the subtransaction, so
    -- that no session can hold up a revocation.
    begin
      perform from skipmq.queue_grant g where g.ctid = v_grant for share skip locked;
      raise sqlstate 'SQ000';
    exception
      when sqlstate 'SQ000' then null;
    end;
  end if;
end $$;
