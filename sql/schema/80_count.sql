-- The number of messages of each generation, as a sum and the changes since. Each transaction only adds its changes, so
-- that none waits for a counter; fold_counts adds them to the sums. Sum and changes together are exact in every snapshot,
-- as are the totals of events, except for receives, which nodes count and add once a second.
create table skipmq.queue_count (
  queue_id bigint primary key,
  messages bigint not null,
  sent bigint not null default 0,
  bytes_sent bigint not null default 0,
  received bigint not null default 0,
  empty_receives bigint not null default 0,
  deleted bigint not null default 0,
  expired bigint not null default 0,
  dead_lettered bigint not null default 0,
  redriven bigint not null default 0,
  -- Moved here by the redrive policy of another queue or by a task.
  moved_in bigint not null default 0
) with (fillfactor = 50);
create table skipmq.queue_delta (
  at timestamptz not null,
  queue_id bigint not null,
  change integer not null,
  -- sent, moved-in, received, empty, or an outcome of the history.
  event text collate "C" not null,
  -- The number of events, where it is not the absolute value of change.
  number integer,
  bytes bigint not null default 0
) with (
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- What deletes from a published table need; a key would be an index that each send writes. It costs nothing unless wal_level is
-- logical.
alter table skipmq.queue_delta replica identity full;
-- For fold_counts, count_messages: new changes, without the dead rows that vacuum cannot remove yet.
create index queue_delta_at on skipmq.queue_delta (at);

-- The number of messages of each generation that were delayed by more than 900 seconds and become visible within 15 minutes from
-- due_at on: rows are only added, and fold_delayed replaces those of a time by their sum.
create table skipmq.delayed_count (
  queue_id bigint not null,
  due_at timestamptz not null,
  change bigint not null
);
alter table skipmq.delayed_count replica identity full;
-- For count_messages and fold_delayed, which read the sums.
create index delayed_count_due on skipmq.delayed_count (queue_id, due_at) include (change);

-- When messages that were delayed by more than 900 seconds become visible, by which delayed_ids finds them: an index of the table
-- message would be opened by each statement. A row stays until its time has passed, whatever became of the message.
create table skipmq.delayed_message (
  queue_id bigint not null,
  message_id uuid not null,
  due_at timestamptz not null,
  primary key (queue_id, message_id)
);
-- For fold_delayed.
create index delayed_message_due on skipmq.delayed_message (due_at);

-- The events of each queue in each of the last minutes; a minute without events has no row.
create table skipmq.queue_minute (
  minute timestamptz not null,
  queue_id bigint not null,
  sent bigint not null,
  -- Of those sent: moved here.
  moved_in bigint not null default 0,
  received bigint not null,
  deleted bigint not null,
  dead_lettered bigint not null,
  expired bigint not null,
  empty_receives bigint not null default 0,
  -- At the last change in the minute.
  messages bigint not null,
  primary key (queue_id, minute)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- For fold_counts, which deletes old minutes.
create index queue_minute_minute on skipmq.queue_minute using brin (minute) with (pages_per_range = 32);

-- The same by ten minutes, for minutes that are older than six hours; kept for seven days.
create table skipmq.queue_period (
  start timestamptz not null,
  queue_id bigint not null,
  sent bigint not null,
  received bigint not null,
  deleted bigint not null,
  dead_lettered bigint not null,
  expired bigint not null,
  empty_receives bigint not null default 0,
  -- At the last change in the period.
  messages bigint not null,
  primary key (queue_id, start)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- For fold_counts, which deletes old periods.
create index queue_period_start on skipmq.queue_period using brin (start) with (pages_per_range = 32);
