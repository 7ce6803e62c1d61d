-- Schedules, each of which sends a message at the times that its expression names; and the last hundred ticks of each.
create table skipmq.schedule (
  account text collate "C" not null,
  region text collate "C" not null,
  name text collate "C" not null check (name ~ '^[A-Za-z0-9_.-]{1,64}$'),
  queue text collate "C" not null,
  expression text not null check (length(expression) between 1 and 256),
  zone text not null default 'UTC' check (length(zone) between 1 and 64),
  -- Each message is delayed by up to this number of seconds.
  jitter integer not null default 0 check (jitter between 0 and 900),
  -- What becomes of ticks that were missed while no node ran.
  catch_up text not null default 'latest' check (catch_up in ('latest', 'all')),
  body text not null check (body <> ''),
  attributes jsonb,
  group_id text,
  -- Nodes could not read other times.
  ends_at timestamptz check (ends_at between 'epoch' and '9999-12-31 00:00+00'),
  -- The schedule ends after this number of failures in a row.
  max_failures integer not null default 10 check (max_failures between 1 and 1000),
  created_at timestamptz not null,
  paused boolean not null default false,
  failures integer not null default 0,
  -- Why a message could not be sent, or why the schedule ended.
  failure text,
  -- Whether next_at is the time of a tick; otherwise a node determines it.
  planned boolean not null default false,
  -- When a node determined it: a time that is to come shows that the clock was set back since.
  planned_at timestamptz,
  -- Null: it has ended.
  next_at timestamptz,
  primary key (account, region, name)
);
-- For due_schedules.
create index schedule_next on skipmq.schedule (next_at) where next_at is not null and not paused;
create index schedule_planned on skipmq.schedule (planned_at) where next_at is not null and not paused;

-- The key lets each tick send one message.
create table skipmq.schedule_tick (
  account text collate "C" not null,
  region text collate "C" not null,
  name text collate "C" not null,
  due_at timestamptz not null,
  ran_at timestamptz not null,
  message_id uuid,
  failure text,
  primary key (account, region, name, due_at)
);
