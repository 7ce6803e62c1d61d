-- The messages that `skipmq analytics replay` sends again, in the order of place. A sent row keeps only its ids, so that
-- repeating the replay sends no message twice.
create table skipmq.replay_message (
  replay text not null,
  place bigint not null,
  message_id uuid not null,
  -- The settled message that is sent again.
  source_id uuid not null,
  target text not null,
  sent_at timestamptz,
  group_id text,
  trace_header text,
  attributes text,
  body text,
  primary key (replay, message_id)
);
-- For send_replay: the messages still to send.
create index replay_message_unsent on skipmq.replay_message (replay, place) where sent_at is null;
