-- Keys that sign requests. The secret is encrypted (AES-256-GCM) under a master key that only nodes and the command line
-- have; the encryption also authenticates the key id.
create table skipmq.access_key (
  key_id text collate "C" primary key,
  account text collate "C" not null check (account ~ '^[0-9]{12}$'),
  -- The key's user, as policies name it; null in temporary credentials.
  name text collate "C" check (name ~ '^[A-Za-z0-9+=,.@_-]{1,64}$'),
  -- In temporary credentials: the key that they were issued for, and the SHA-256 of their session token.
  parent text collate "C" references skipmq.access_key on delete cascade,
  token_digest bytea,
  -- A predefined role with its queues, or a policy; null in temporary credentials.
  rights jsonb check (jsonb_typeof(rights) = 'object'),
  secret bytea not null,
  master_key_id text not null,
  enabled boolean not null default true,
  created_at timestamptz not null,
  expires_at timestamptz,
  last_used_at timestamptz,
  check ((parent is null) = (token_digest is null)),
  check ((parent is null) = (name is not null and rights is not null)),
  check (parent is null or expires_at is not null)
);
-- For the cascade.
create index access_key_parent on skipmq.access_key (parent);

-- The keys that were revoked, without their secrets: the audit log and alerts name them for as long as they are asked for.
create table skipmq.revoked_key (
  key_id text collate "C" constraint revoked_key_pkey primary key,
  account text collate "C" not null,
  name text collate "C" not null,
  revoked_at timestamptz not null,
  -- The account of the operating system that ran the command.
  revoked_by text
);

-- Sessions of the console that were signed out before they expired: a copy of their cookie is not accepted.
create table skipmq.ended_session (
  -- The SHA-256 of a secret that only the session's cookie has.
  digest bytea primary key check (octet_length(digest) = 32),
  until timestamptz not null
);
