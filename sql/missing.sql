-- The roles and rights that are missing, in the order in which they must be created: the problem, its consequence, the
-- statement that fixes it, and whether the owner's next `skipmq migrate` does so (without a statement, always). Used by
-- `skipmq migrate` and `skipmq doctor`, as any role. $1: functions that roles.sql revokes from nodes; $2: functions that it
-- grants to applications.
with owner as (
  select r.oid, r.rolname, r.rolsuper, r.rolsuper or r.rolcreaterole as creates_roles
  from pg_roles r
  where r.oid = coalesce(
    (select n.nspowner from pg_namespace n where n.nspname = 'skipmq'),
    (select c.oid from pg_roles c where c.rolname = current_user))
),
role as (
  select w.n, w.name, w.options, w.loss, r.oid, o.rolname as owner, o.oid as owner_oid, o.rolsuper,
    -- Before PostgreSQL 16 a role with CREATEROLE could change every role.
    o.creates_roles and current_setting('server_version_num')::int < 160000
      or coalesce(pg_has_role(o.oid, r.oid, 'member with admin option'), o.rolsuper) as is_owners,
    o.creates_roles
  from owner o
  cross join (values
    (1, 'skipmq_node', 'login', 'nodes have no login with least privilege'),
    (2, 'skipmq_reader', 'login connection limit 32', 'analytics has no read-only login'),
    (3, 'skipmq_application', 'nologin', '`skipmq sql grant` cannot allow applications to use queues by SQL')
  ) w (n, name, options, loss)
  left join pg_roles r on r.rolname = w.name
),
-- Roles that lack a right that roles.sql grants.
lacking as (
  select r.n, r.name, r.loss
  from role r
  where r.oid is not null
    and (
      exists (
        select from pg_namespace n
        where (r.name, n.nspname::text) in (
            ('skipmq_node', 'skipmq'), ('skipmq_node', 'skipmq_views'), ('skipmq_reader', 'skipmq_views'),
            ('skipmq_application', 'skipmq'))
          and not has_schema_privilege(r.oid, n.oid, 'usage'))
      or exists (
        select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'skipmq'
          and case r.name
            when 'skipmq_node' then p.proname <> all ($1::text[])
            when 'skipmq_reader' then p.proname = 'timeline'
            else p.proname = any ($2::text[])
          end
          and not has_function_privilege(r.oid, p.oid, 'execute'))
      or exists (
        select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind = 'v'
          and n.nspname = 'skipmq_views'
          and r.name in ('skipmq_node', 'skipmq_reader')
          and not has_table_privilege(r.oid, c.oid, 'select'))
      or exists (
        select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'skipmq'
          and c.relname = 'alembic_version'
          and r.name = 'skipmq_node'
          and not has_table_privilege(r.oid, c.oid, 'select'))
    )
)
select m.what, m.loss, m.statement, m.by_owner
from (
  select 0 as n, 0 as step, format('role %s may not create a schema in database %s', o.rolname, current_database()) as what,
    '`skipmq migrate` cannot start' as loss,
    format('grant create on database %I to %I', current_database(), o.rolname) as statement, false as by_owner
  from owner o
  where to_regnamespace('skipmq') is null
    and not has_database_privilege(o.oid, current_database(), 'create')
  union all
  select r.n, 1, format('role %s does not exist', r.name), r.loss,
    format('create role %I %s', r.name, r.options), r.creates_roles
  from role r
  where r.oid is null
  union all
  select r.n, 2, format('role %s has no %s', r.name, s.name), 'readers can write, and keep transactions open for hours',
    format('alter role %I set %I = %L', r.name, s.name, s.value), r.creates_roles and (r.oid is null or r.is_owners)
  from role r
  cross join (values
    ('default_transaction_read_only', 'on'), ('statement_timeout', '30min'),
    ('idle_in_transaction_session_timeout', '1min')) s (name, value)
  where r.name = 'skipmq_reader'
    and not exists (
      select from pg_roles g cross join lateral unnest(g.rolconfig) c (text)
      where g.oid = r.oid and c.text like s.name || '=%')
  union all
  select r.n, 3, format('role %s has no connection limit', r.name), 'readers can use all connections',
    format('alter role %I connection limit 32', r.name), r.is_owners
  from role r
  where r.name = 'skipmq_reader'
    and exists (select from pg_roles g where g.oid = r.oid and g.rolconnlimit = -1)
  union all
  select r.n, 4, format('role %s is not a member of %s', r.owner, r.name), 'nodes cannot terminate readers with long snapshots',
    format('grant %I to %I', r.name, r.owner), r.creates_roles and (r.oid is null or r.is_owners)
  from role r
  where r.name = 'skipmq_reader' and not coalesce(pg_has_role(r.owner_oid, r.oid, 'usage'), r.rolsuper)
  union all
  select r.n, 4, format('role %s may not grant %s', r.owner, r.name), r.loss,
    format('grant %I to %I with admin option', r.name, r.owner), false
  from role r
  where r.name = 'skipmq_application' and not r.is_owners and not (r.creates_roles and r.oid is null)
  union all
  select r.n, 5, format('role %s may not connect to database %s', r.name, current_database()), r.loss,
    format('grant connect on database %I to %I', current_database(), r.name), false
  from role r
  where not coalesce(
    has_database_privilege(r.oid, current_database(), 'connect'),
    has_database_privilege('public', current_database(), 'connect'))
  union all
  select 4, 0, format('role %s is not a member of pg_monitor', o.rolname),
    'nodes cannot see the standbys and the snapshots of other roles', format('grant pg_monitor to %I', o.rolname), false
  from owner o
  where not pg_has_role(o.oid, 'pg_monitor', 'usage')
  union all
  select 5, l.n, format('role %s lacks rights of this release', l.name), l.loss, null, true
  from lacking l
) m
order by m.n, m.step, m.what
