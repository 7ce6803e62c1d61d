-- The groups whose messages are not received: until a time, or until they are resumed.
create table skipmq.paused_group (
  queue_id bigint not null,
  group_id text collate "C" not null,
  until timestamptz,
  paused_at timestamptz not null,
  -- A user, or a role of SQL.
  paused_by text not null,
  constraint paused_group_pkey primary key (queue_id, group_id)
);

-- Until when the receives so far use a queue's rate up (GCRA's theoretical arrival time), and that of each of its groups, whose
-- key is their name; the queue's is ''. A time that has passed is as good as no row.
create table skipmq.receive_rate (
  queue_id bigint not null,
  key text collate "C" not null,
  used_until timestamptz not null,
  constraint receive_rate_pkey primary key (queue_id, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
