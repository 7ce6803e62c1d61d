-- The audit log: management actions, refusals and sign-ins to the console. record_audit adds rows, expire_audit_records
-- deletes old ones, and no row is updated.
create sequence skipmq.audit_record_seq as integer maxvalue 32767 cycle;
create table skipmq.audit_record (
  -- In the order of time, also among the records of all partitions: the milliseconds of recorded_at since 1970, 15 bits of the
  -- sequence, 6 bits of the partition.
  id bigint not null,
  recorded_at timestamptz not null,
  -- Null for requests without a verified identity.
  account text collate "C",
  access_key text collate "C",
  -- Whether access_key is only named by a refused request and not verified.
  claimed boolean not null,
  user_arn text,
  -- Null when the request was refused before its action was known.
  action text collate "C",
  -- The queue's ARN; the queue need not exist.
  queue text collate "C",
  client text,
  door text not null check (door in ('api', 'console', 'command')),
  request_id text not null,
  -- `done`, or the code of an error.
  outcome text collate "C" not null,
  -- Of a management action; where they are too long, their beginning as text.
  parameters jsonb,
  constraint audit_record_pkey primary key (id)
);
-- For audit_records.
create index audit_record_account on skipmq.audit_record (account, id);
create index audit_record_owner on skipmq.audit_record (split_part(queue, ':', 5), id)
  where account <> split_part(queue, ':', 5);
create index audit_record_queue on skipmq.audit_record (queue, id) where queue is not null;
create index audit_record_access_key on skipmq.audit_record (access_key, id) where access_key is not null;
create index audit_record_action on skipmq.audit_record (action, id);
create index audit_record_user on skipmq.audit_record (coalesce(nullif(split_part(user_arn, ':user/', 2), ''), user_arn), id);
create index audit_record_change on skipmq.audit_record (id) where outcome = 'done' and action is distinct from 'SignIn';
create index audit_record_refusal on skipmq.audit_record (outcome, id) where outcome <> 'done';
