-- How a message was settled. A type, since PostgreSQL parses a table's check constraint in each statement that adds rows: 7 %
-- of a delete.
create type skipmq.outcome as enum ('deleted', 'expired', 'purged', 'dead-lettered', 'redriven');

-- One row for each settled message, partitioned by day of settlement (UTC). Written by the statement that settles, read by
-- analytics, dropped by day. attributes and body are set only where the queue's history mode is full.
create table skipmq.history (
  settled_at timestamptz not null,
  sent_at timestamptz not null,
  first_received_at timestamptz,
  -- The id of the settling transaction: the position of incremental readers.
  xid bigint not null,
  id bigint not null,
  queue_id bigint not null,
  receive_count integer not null,
  body_bytes integer not null,
  attribute_bytes integer not null,
  message_id uuid not null,
  outcome skipmq.outcome not null,
  group_id text,
  deduplication_id text,
  sender text,
  trace_header text,
  attributes text,
  body text,
  -- The application_name of the session that settled the message; a node's is `skipmq PROCESS`.
  node text
) partition by range (settled_at);
-- For incremental readers, which read windows of xid.
create index history_xid on skipmq.history
  using brin (xid) with (pages_per_range = 32, autosummarize = on);
-- The days that an export has completely: the number of rows, all of transactions below to_xid; when an export last
-- compared their rows; whether the database has dropped them; the identifier of the lake's table, and its URL.
create table skipmq.archived_day (
  day date primary key,
  rows bigint not null,
  to_xid bigint not null,
  archived_at timestamptz not null,
  dropped boolean not null default false,
  lake text collate "C" not null,
  place text not null
);
-- The messages that were erased on request, so that they are not taken for lost; kept as long as the history.
create table skipmq.erased_message (
  message_id uuid primary key,
  queue_id bigint not null,
  erased_at timestamptz not null
);
-- Takes rows of days that have no partition, so that no settlement fails.
create table skipmq.history_default partition of skipmq.history default;
-- As queue_delta has; each partition has one of its own.
alter table skipmq.history replica identity full;
alter table skipmq.history_default replica identity full;
