-- One row for each settled message, by day of settlement (UTC). Written by the statement that settles;
-- read by analytics; dropped a day at a time. attributes and body only where the queue's mode is full.
create table skipmq.history (
  settled_at timestamptz not null,
  sent_at timestamptz not null,
  first_received_at timestamptz,
  -- The settling transaction, as a number that grows: the position of incremental readers.
  xid bigint not null,
  id bigint not null,
  queue_id integer not null,
  receive_count integer not null,
  body_bytes integer not null,
  attribute_bytes integer not null,
  message_id uuid not null,
  outcome text not null check (outcome in ('deleted', 'expired', 'purged', 'dead-lettered', 'redriven')),
  group_id text,
  deduplication_id text,
  sender text,
  trace_header text,
  attributes text,
  body text,
  -- The session that settled it, by its application_name; a node's is `skipmq PROCESS`.
  node text
) partition by range (settled_at);
-- For incremental readers, which take windows of xid.
create index history_xid on skipmq.history
  using brin (xid) with (pages_per_range = 32, autosummarize = on);
-- The days that an export has in whole: how many rows, all of transactions below to_xid; when the last export saw that
-- all their files are as it wrote them; whether the database has dropped them since.
create table skipmq.archived_day (
  day date primary key,
  rows bigint not null,
  to_xid bigint not null,
  archived_at timestamptz not null,
  dropped boolean not null default false
);
-- Catches what is settled should nobody have made the day's partition: nothing fails, nothing is lost.
create table skipmq.history_default partition of skipmq.history default;
