-- Who did which management action on what, who was refused, and who signed in to the console: the audit log. Rows are
-- only ever added, by record_audit, and deleted when they are old, by expire_audit_records.
create table skipmq.audit_record (
  id bigint generated always as identity,
  recorded_at timestamptz not null,
  -- Null where nobody has proved who it is.
  account text collate "C",
  access_key text collate "C",
  -- Whether the access key has proved nothing: a request that was refused only names it.
  claimed boolean not null,
  user_arn text,
  -- Null where a request was refused before it was known what it asks for.
  action text collate "C",
  -- Its ARN. The queue may not exist, then or now.
  queue text collate "C",
  client text,
  door text not null check (door in ('api', 'console', 'command')),
  request_id text not null,
  -- `done`, or the code of an error.
  outcome text collate "C" not null,
  -- Of a management action; a text where it was too long, then its beginning.
  parameters jsonb,
  constraint audit_record_pkey primary key (id)
);
-- For audit_records.
create index audit_record_queue on skipmq.audit_record (queue, id) where queue is not null;
create index audit_record_access_key on skipmq.audit_record (access_key, id) where access_key is not null;
create index audit_record_action on skipmq.audit_record (action, id);
