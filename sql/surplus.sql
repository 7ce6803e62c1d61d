-- The rights that a role other than the owner has on SkipMQ's objects and that roles.sql does not give, in the columns of
-- missing.sql: from default privileges, a later `grant … on all tables in schema`, or a restore. `skipmq migrate` runs the
-- statements as the owner; `skipmq doctor` and a node that starts name them, as any role. $1, $2: as in missing.sql.
-- Rights on types reach no data, and are not looked at.
with owner as (
  select r.oid, r.rolsuper, to_regclass('skipmq_router.map') is not null as is_router
  from pg_roles r join pg_namespace n on n.nspowner = r.oid
  where n.nspname = 'skipmq'
),
space as materialized (
  select n.oid, n.nspname::text as name, n.nspowner, n.nspacl
  from pg_namespace n
  where n.nspname in ('skipmq', 'skipmq_views', 'skipmq_router')
),
-- Without an access list an object has the default rights, which for functions are those of everybody. `shown` is null where
-- it takes a look-up: of each function, which takes longer than all else, but few have surplus rights.
held as materialized (
  select 'schema' as kind, s.name as space, s.name as object, s.oid as id, quote_ident(s.name) as shown, s.nspowner as owner, a.*, null as attribute
  from space s
  cross join aclexplode(s.nspacl) a
  union all
  select case c.relkind when 'S' then 'sequence' else 'table' end, s.name, c.relname, c.oid, null, c.relowner, a.*, null
  from pg_class c
  join space s on s.oid = c.relnamespace
  cross join aclexplode(c.relacl) a
  union all
  select 'table', s.name, c.relname, c.oid, null, c.relowner, a.*, quote_ident(t.attname)
  from pg_attribute t
  join pg_class c on c.oid = t.attrelid
  join space s on s.oid = c.relnamespace
  cross join aclexplode(t.attacl) a
  union all
  select 'routine', s.name, p.proname, p.oid, null, p.proowner, a.*, null
  from pg_proc p
  join space s on s.oid = p.pronamespace
  cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
  union all
  select 'foreign server', '', f.srvname, f.oid, quote_ident(f.srvname), f.srvowner, a.*, null
  from pg_foreign_server f
  cross join aclexplode(f.srvacl) a
  where f.srvname = 'skipmq' and exists (select from owner o where o.is_router)
  union all
  -- For objects that will be created.
  select 'default', s.name,
    case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'routines' when 'T' then 'types' end,
    d.oid, d.defaclrole::regrole::text, d.defaclrole, a.*, null
  from pg_default_acl d
  join space s on s.oid = d.defaclnamespace
  cross join aclexplode(d.defaclacl) a
),
judged as materialized (
  select h.kind, h.space, h.object, h.id, h.shown, h.owner, h.is_grantable,
    case when h.grantee = 0 then 'public' else h.grantee::regrole::text end as grantee,
    lower(h.privilege_type) || coalesce(' (' || h.attribute || ')', '') as privilege,
    coalesce(
      case h.kind
        when 'schema' then h.privilege_type = 'USAGE' and (
          (r.rolname, h.object) in (
            ('skipmq_node', 'skipmq'), ('skipmq_node', 'skipmq_views'), ('skipmq_reader', 'skipmq_views'),
            ('skipmq_application', 'skipmq'))
          or o.is_router and r.rolname in ('skipmq_node', 'skipmq_reader'))
        when 'table' then h.privilege_type = 'SELECT' and h.attribute is null and (
          r.rolname = 'skipmq_node' and h.object = 'alembic_version'
          or r.rolname in ('skipmq_node', 'skipmq_reader') and h.space = 'skipmq_views'
          or r.rolname in ('skipmq_node', 'skipmq_reader') and o.is_router and h.object in ('map', 'alembic_version'))
        when 'routine' then
          case r.rolname
            when 'skipmq_node' then h.object <> all ($1::text[])
            when 'skipmq_application' then h.space = 'skipmq' and h.object = any ($2::text[])
            when 'skipmq_reader' then h.space = 'skipmq' and h.object = case when o.is_router then 'partition_map' else 'timeline' end
          end
        when 'foreign server' then r.rolname = 'skipmq_router'
      end, false) as is_given
  from held h
  cross join owner o
  left join pg_roles r on r.oid = h.grantee
  where h.grantee not in (h.owner, o.oid)
),
-- One row for what a role has on an object, then one for all objects of an owner on which it has the same: a statement that
-- names another owner's too is refused as a whole.
surplus as (
  select j.kind, j.space, j.object,
    case j.kind when 'routine' then j.id::regprocedure::text else coalesce(j.shown, j.id::regclass::text) end as shown,
    j.owner, j.grantee, j.is_given, string_agg(j.privilege, ', ' order by j.privilege) as privileges
  from judged j
  where j.is_grantable or not j.is_given
  group by j.kind, j.space, j.object, j.id, j.shown, j.owner, j.grantee, j.is_given
),
grouped as (
  select s.kind, s.space, s.grantee, s.is_given, s.privileges, min(s.object) as object, count(*) as number,
    string_agg(s.shown, ', ' order by s.shown) as shown, bool_and(o.rolsuper or pg_has_role(o.oid, s.owner, 'usage')) as by_owner
  from surplus s cross join owner o
  group by s.kind, s.space, s.owner, s.grantee, s.is_given, s.privileges, case when s.kind = 'default' then (s.shown, s.object) end
)
select
  format('%s %s %s on %s',
    case g.grantee when 'public' then 'every role' else 'role ' || g.grantee end,
    case when g.is_given then 'may grant' else 'has' end, g.privileges,
    case
      when g.kind = 'default' then format('new %s of %s in schema %s', g.object, g.shown, g.space)
      when g.number = 1 then format('%s %s', g.kind, g.shown)
      else format('%s %ss of schema %s', g.number, g.kind, g.space)
    end) as what,
  case g.space
    when 'skipmq_views' then 'a role that reads is a member of skipmq_reader instead'
    else 'it bypasses what `skipmq sql grant` and membership in a role of SkipMQ give'
  end as loss,
  case
    when g.kind = 'default' then
      format('alter default privileges for role %s in schema %I revoke %s on %s from %s cascade',
        g.shown, g.space, g.privileges, g.object, g.grantee)
    else
      format('revoke %s%s on %s %s from %s cascade',
        case when g.is_given then 'grant option for ' end, g.privileges, g.kind, g.shown, g.grantee)
  end as statement,
  g.by_owner
from grouped g
order by 1, 3
