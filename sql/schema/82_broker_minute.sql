-- What happened in each minute, for the overview, kept for six hours: the messages of all queues of an account (or of all,
-- `*`) as sum_minutes adds them up, and, where the account is empty, what nodes measure (note_minute) and the timeline.
create table skipmq.broker_minute (
  account text collate "C" not null,
  minute timestamptz not null,
  -- sent, received, deleted and messages (at the end of the minute); error, by code; duration, by the upper bound of its bucket
  -- in seconds; condition, by trouble; node, by name and release, where one starts; timeline.
  kind text collate "C" not null,
  label text collate "C" not null,
  number bigint not null,
  constraint broker_minute_pkey primary key (account, minute, kind, label)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- For sum_minutes, which removes old ones.
create index broker_minute_minute on skipmq.broker_minute (minute);
