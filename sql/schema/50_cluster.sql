-- State that all nodes of a broker share.
create table skipmq.cluster (
  one boolean primary key default true check (one),
  created_at timestamptz not null default clock_timestamp(),
  -- Another random number after every change of access keys, receipt-handle keys and ended sessions.
  access_key_version bigint not null default 0,
  -- The time up to which fold_counts has folded all changes.
  counted_to timestamptz not null default '-infinity',
  -- The place of this database among partitions: its number, how many there are, how many there were when they were made
  -- (the homes of names are among these, and never change), and what identifies those that belong together (null: it is the
  -- only one). The upper bits of a queue id, queue_id >> 57, are the number.
  partition integer not null default 0,
  partitions integer not null default 1,
  homes integer not null default 1,
  map_id uuid,
  check (partition >= 0 and partition < partitions and homes between 1 and partitions and partitions <= 64)
);
insert into skipmq.cluster default values;

-- The keys that authenticate receipt handles: the newest one, and those that it replaced recently.
create table skipmq.receipt_key (
  made_at timestamptz primary key,
  key bytea not null
);
insert into skipmq.receipt_key (made_at, key)
select clock_timestamp(), decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');

-- watch_disk fills this table to test whether the disk has room, and rolls back: no row is ever visible.
create unlogged table skipmq.disk_probe (
  filler text not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1);
alter table skipmq.disk_probe alter column filler set storage plain;
-- The jobs of the janitor, for hold_job: the node that runs a job locks its row.
create table skipmq.job (name text collate "C" primary key);
insert into skipmq.job (name)
values
  ('clear_retired'), ('create_history_partitions'), ('drop_history_partitions'), ('expire_audit_records'),
  ('expire_deduplication'), ('expire_messages'), ('fold_counts'), ('mark_noisy'), ('sum_minutes');
