-- What all nodes of one broker share: the key that authenticates receipt handles.
create table skipmq.cluster (
  one boolean primary key default true check (one),
  receipt_key bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Grows with every change of the access keys.
  access_key_version bigint not null default 0,
  -- Up to when fold_counts has added up everything.
  counted_to timestamptz not null default '-infinity'
);
insert into skipmq.cluster (receipt_key)
select decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');

-- What watch_disk fills to see whether the disk has room, and empties by going back: never a row that is seen.
create unlogged table skipmq.disk_probe (
  filler text not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1);
alter table skipmq.disk_probe alter column filler set storage plain;
