-- What `skipmq analytics replay` sends again, in the order of place. A row that is sent keeps only its ids, so
-- that a repetition of the replay sends nothing twice.
create table skipmq.replay_message (
  replay text not null,
  place bigint not null,
  message_id uuid not null,
  -- The settled message that it repeats.
  source_id uuid not null,
  target text not null,
  sent_at timestamptz,
  group_id text,
  trace_header text,
  attributes text,
  body text,
  primary key (replay, message_id)
);
-- For send_replay: what is still to send.
create index replay_message_unsent on skipmq.replay_message (replay, place) where sent_at is null;
