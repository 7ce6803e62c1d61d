-- Tenants (groups of a standard queue) that had too large a part of its messages in flight: theirs wait in
-- shard 1, behind those of the others.
create table skipmq.noisy_tenant (
  queue_id integer not null,
  group_id text collate "C" not null,
  until timestamptz not null,
  constraint noisy_tenant_pkey primary key (queue_id, group_id)
);
