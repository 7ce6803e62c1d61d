-- How many messages each generation has, in two parts: a sum, and what has changed since. The changes are
-- only ever added, by the transaction that makes them, so that nobody waits for a counter; fold_counts
-- adds them up. Sum and changes together are exact in every snapshot. So are the totals of what happened to
-- messages, but for receives, which nodes count and add once a second.
create table skipmq.queue_count (
  queue_id integer primary key,
  messages bigint not null,
  sent bigint not null default 0,
  bytes_sent bigint not null default 0,
  received bigint not null default 0,
  empty_receives bigint not null default 0,
  deleted bigint not null default 0,
  expired bigint not null default 0,
  dead_lettered bigint not null default 0,
  redriven bigint not null default 0,
  -- From the dead-letter policy or a move of another queue.
  moved_in bigint not null default 0
) with (fillfactor = 50);
create table skipmq.queue_delta (
  at timestamptz not null,
  queue_id integer not null,
  change integer not null,
  -- sent, moved-in, received, empty, or an outcome of the history.
  event text collate "C" not null,
  -- How many, where that is not the change.
  number integer,
  bytes bigint not null default 0
) with (
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- For fold_counts, count_messages: what is new, without what is dead and cannot be cleared yet.
create index queue_delta_at on skipmq.queue_delta (at);

-- What happened to the messages of each queue in each of the last minutes: a row where something did.
create table skipmq.queue_minute (
  minute timestamptz not null,
  queue_id integer not null,
  sent bigint not null,
  received bigint not null,
  deleted bigint not null,
  dead_lettered bigint not null,
  -- At the last change in it.
  messages bigint not null,
  primary key (queue_id, minute)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- For fold_counts, which clears what is old.
create index queue_minute_minute on skipmq.queue_minute using brin (minute) with (pages_per_range = 32);
