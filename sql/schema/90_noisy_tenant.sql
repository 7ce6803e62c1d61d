-- Tenants (groups of a standard queue) with too large a share of its messages in flight: their messages wait in shard 1,
-- behind those of other tenants.
create table skipmq.noisy_tenant (
  queue_id bigint not null,
  group_id text collate "C" not null,
  until timestamptz not null,
  constraint noisy_tenant_pkey primary key (queue_id, group_id)
);
