-- Does: revokes from a role what grant_queues granted: sends to p_send and receives from p_receive, by the same names and
--   patterns; without both, all of every account and region. With the last grant in this database it also revokes the
--   membership in skipmq_application.
-- Called by: `skipmq sql revoke`, as the owner.
-- Locks, in order: the table of grants, against writes.
-- Raises: SQ010 when the role or one of the grants does not exist; then nothing is revoked.
-- Relies on index: queue_grant_pkey.
-- Routed: not: commands run it on each partition itself.
--
-- Takes effect at the next statement of each session. Not granted to nodes.
create function skipmq.revoke_queues(
  p_role text, p_send text[] default null, p_receive text[] default null,
  p_account text default '000000000000', p_region text default 'us-east-1'
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_role oid := (select r.oid from pg_roles r where r.rolname = p_role);
  v_missing text;
begin
  if v_role is null then
    raise exception 'there is no role %: `skipmq sql list` lists those with grants', p_role using errcode = 'SQ010';
  end if;
  lock table skipmq.queue_grant in share row exclusive mode;
  delete from skipmq.queue_grant g where pg_get_userbyid(g.role) <> g.role_name;
  if p_send is null and p_receive is null then
    delete from skipmq.queue_grant g where g.role = v_role;
    if not found then
      raise exception 'role % has no grants: `skipmq sql list` lists the existing ones', p_role using errcode = 'SQ010';
    end if;
  else
    p_send := coalesce(p_send, '{}');
    p_receive := coalesce(p_receive, '{}');
    select r.text into v_missing
    from (
      select unnest(p_send), 'send to'
      union all
      select unnest(p_receive), 'receive from'
    ) q (queue, verb)
    cross join lateral (select q.verb || ' ' || q.queue) r (text)
    where not exists (
      select from skipmq.queue_grant g
      where g.account = p_account and g.region = p_region and g.queue = q.queue and g.role = v_role
        and case q.verb when 'send to' then g.may_send else g.may_receive end)
    limit 1;
    if found then
      raise exception 'role % has no grant to %: `skipmq sql list` lists the existing ones', p_role, v_missing
        using errcode = 'SQ010';
    end if;
    delete from skipmq.queue_grant g
    where g.account = p_account and g.region = p_region and g.role = v_role
      and (not g.may_send or g.queue = any (p_send)) and (not g.may_receive or g.queue = any (p_receive));
    update skipmq.queue_grant g set
      may_send = g.may_send and g.queue <> all (p_send),
      may_receive = g.may_receive and g.queue <> all (p_receive)
    where g.account = p_account and g.region = p_region and g.role = v_role and g.queue = any (p_send || p_receive);
  end if;
  if not exists (select from skipmq.queue_grant g where g.role = v_role)
    and exists (
      select from pg_auth_members m where m.roleid = to_regrole('skipmq_application') and m.member = v_role)
  then
    begin
      execute format('revoke skipmq_application from %I', p_role);
    exception
      -- An administrator granted it. Without grants it permits nothing.
      when insufficient_privilege then null;
    end;
  end if;
end $$;
