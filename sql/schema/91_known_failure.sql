-- The kinds of failure of the messages that a dead-letter queue received in the last seven days.
create table skipmq.known_failure (
  queue_id bigint not null,
  -- A hash of failure_kind: the kind may have what identifies a person.
  kind bigint not null,
  -- When the first came after seven days without one, and its number.
  first_at timestamptz not null,
  first_id bigint not null,
  -- To the hour.
  seen_at timestamptz not null,
  constraint known_failure_pkey primary key (queue_id, kind)
);
-- For new_failures.
create index known_failure_first on skipmq.known_failure (queue_id, first_at);
