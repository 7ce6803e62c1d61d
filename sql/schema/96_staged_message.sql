-- Messages that Spark's tasks have staged and send_staged will send. Each attempt of a task is a part of its own: a batch
-- names the parts that it consists of, so that rows of an attempt that failed are never sent.
create table skipmq.staged_message (
  -- The queue's account, region and name. Its generation may change before the messages are sent.
  target text not null,
  stream text not null,
  part uuid not null,
  place bigint not null,
  staged_at timestamptz not null,
  message_id uuid not null,
  delay integer,
  group_id text,
  deduplication_id text,
  trace_header text,
  attributes text,
  body text not null,
  -- For send_staged: in the order of places.
  primary key (target, stream, place, part)
);
-- For expire_staged_messages.
create index staged_message_staged on skipmq.staged_message (staged_at);

-- The last batch of each stream: its parts, and the place up to which it is sent. The row is what makes a repeated batch
-- send nothing, for 90 days after the last call of send_staged for the stream.
create table skipmq.staged_batch (
  target text not null,
  stream text not null,
  batch bigint not null,
  parts uuid[] not null,
  sent_to bigint not null,
  used_at timestamptz not null,
  primary key (target, stream)
);
