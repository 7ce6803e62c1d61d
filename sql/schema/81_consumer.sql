-- Who has received from queues in the last minutes, and the worker processes of nodes. Workers write both every few seconds
-- from their memory, never for a request; rows are removed minutes later. Unlogged: after a crash they come back by
-- themselves.
create unlogged table skipmq.consumer (
  queue_id bigint not null,
  -- A worker's, or of a SQL session.
  process text collate "C" not null,
  -- An access key, empty for an unsigned request; a role for SQL.
  caller text collate "C" not null,
  address text collate "C" not null,
  -- The application_name of a SQL session; null for HTTP.
  application text,
  -- The User-Agent of its first request at that worker; null for SQL, and where it has none.
  user_agent text,
  since timestamptz not null,
  last_receive_at timestamptz,
  -- Totals since then; null where they are not known, for SQL.
  receives bigint,
  received bigint,
  deleted bigint,
  waiting integer not null,
  seen_at timestamptz not null,
  constraint consumer_pkey primary key (queue_id, process, caller, address)
) with (fillfactor = 50);

create unlogged table skipmq.worker (
  process text collate "C" primary key,
  host text not null,
  release text not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  -- Rates, latency and memory by name, as the worker of that release measures them.
  figures jsonb not null
) with (fillfactor = 50);

-- The requests that were refused, by the minute; kept for six hours. Workers add to it every few seconds from their memory.
create unlogged table skipmq.refusal (
  minute timestamptz not null,
  -- That of the queue, of the key or of the node, in this order.
  account text collate "C" not null,
  region text collate "C" not null,
  -- `*` where the request named none, or was refused before it was read.
  queue text collate "C" not null,
  -- The user, `unknown key` or `no key`.
  caller text collate "C" not null,
  error text collate "C" not null,
  number bigint not null,
  constraint refusal_pkey primary key (account, region, queue, caller, error, minute)
) with (fillfactor = 50);
