-- How many messages each generation has, in two parts: a sum, and what has changed since. The changes are
-- only ever added, by the transaction that makes them, so that nobody waits for a counter; fold_counts
-- adds them up. Sum and changes together are exact in every snapshot.
create table skipmq.queue_count (
  queue_id integer primary key,
  messages bigint not null
) with (fillfactor = 50);
create table skipmq.queue_delta (
  at timestamptz not null,
  queue_id integer not null,
  change integer not null
) with (
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- For fold_counts, count_messages: what is new, without what is dead and cannot be cleared yet.
create index queue_delta_at on skipmq.queue_delta (at);
