-- The queues that roles may send to, or receive from, by SQL. A role is stored by its OID, so that a new role of the same
-- name has none of its grants, and by its name: a dump has the OID of a role that was dropped, which may be another role's where
-- it is restored. Only a row that has both has an effect.
create table skipmq.queue_grant (
  role regrole not null,
  role_name text collate "C" not null,
  account text collate "C" not null check (account ~ '^[0-9]{12}$'),
  region text collate "C" not null,
  -- A name, or a pattern with * for any characters. Of the permitted characters only _ is special in LIKE.
  queue text collate "C" not null
    check (queue ~ '^[A-Za-z0-9_*-]{1,80}$' or queue ~ '^[A-Za-z0-9_*-]{1,75}[.]fifo$'),
  may_send boolean not null,
  may_receive boolean not null,
  granted_at timestamptz not null,
  granted_by text not null,
  constraint queue_grant_pkey primary key (account, region, queue, role),
  check (may_send or may_receive)
);
-- For check_grant.
create index queue_grant_pattern on skipmq.queue_grant (account, region) where queue like '%*%';
