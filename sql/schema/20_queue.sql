-- The current queues. queue_id is the current generation: purge gives the name a new one, which empties the queue by
-- one row change; the janitor settles the messages of the old one.
create table skipmq.queue (
  account text collate "C" not null check (account ~ '^[0-9]{12}$'),
  region text collate "C" not null check (region ~ '^[A-Za-z0-9-]{1,64}$'),
  name text collate "C" not null check (name ~ '^[A-Za-z0-9_-]{1,80}$' or name ~ '^[A-Za-z0-9_-]{1,75}\.fifo$'),
  queue_id bigint not null,
  fifo boolean not null default false check (fifo = (name like '%.fifo')),
  visibility_timeout integer not null default 30 check (visibility_timeout between 0 and 43200),
  delay_seconds integer not null default 0 check (delay_seconds between 0 and 900),
  -- The limit of a message's own delay; 31536000 is a year.
  maximum_delay_seconds integer not null default 900 check (maximum_delay_seconds between 0 and 31536000),
  maximum_message_size integer not null default 1048576
    check (maximum_message_size between 1024 and 1048576),
  message_retention_period integer not null default 345600
    check (message_retention_period between 60 and 1209600),
  receive_message_wait_time_seconds integer not null default 0
    check (receive_message_wait_time_seconds between 0 and 20),
  policy text not null default '' check (octet_length(policy) <= 8192),
  -- The text that the user set; the columns below have the parts that receives and checks need.
  redrive_policy text not null default '' check (length(redrive_policy) <= 1024),
  redrive_allow_policy text not null default '' check (length(redrive_allow_policy) <= 4096),
  dead_letter_account text collate "C",
  dead_letter_name text collate "C",
  max_receive_count integer check (max_receive_count between 1 and 1000),
  kms_master_key_id text not null default '' check (length(kms_master_key_id) <= 2048),
  kms_data_key_reuse_period_seconds integer not null default 300
    check (kms_data_key_reuse_period_seconds between 60 and 86400),
  sqs_managed_sse_enabled boolean not null default true,
  history_mode text not null default 'metadata' check (history_mode in ('off', 'metadata', 'full')),
  -- At most 50 texts of at most 256 characters, with keys of 1 to 128 (jsonpath limits repetitions to 255).
  tags jsonb not null default '{}' check (
    jsonb_typeof(tags) = 'object' and jsonb_array_length(jsonb_path_query_array(tags, '$.keyvalue()')) <= 50
    and not tags @? '$.keyvalue() ? (@.key like_regex "^(.{129}|$)" flag "s")'
    and not tags @? '$.* ? (@.type() != "string" || @ like_regex "^.{129}.{128}" flag "s")'),
  created_at timestamptz not null,
  modified_at timestamptz not null,
  purged_at timestamptz,
  content_based_deduplication boolean not null default false,
  deduplication_scope text not null default 'queue' check (deduplication_scope in ('queue', 'messageGroup')),
  fifo_throughput_limit text not null default 'perQueue'
    check (fifo_throughput_limit in ('perQueue', 'perMessageGroupId')),
  -- Whether a message with a group was ever sent to it: in a standard queue a group is a tenant.
  tenants boolean not null default false,
  -- The number of other servers that a send waits for: none, one, the majority of all servers, or all.
  replication_mode text not null default 'any' check (replication_mode in ('none', 'any', 'majority', 'all')),
  -- Whether receives return no messages, until it is false again.
  paused boolean not null default false,
  -- Since when, and by whom: a user, or a role of SQL.
  paused_at timestamptz,
  paused_by text,
  -- JSON Schema of the bodies, which nodes check; with the mode enforce they refuse sends that do not fit.
  body_schema text not null default '' check (octet_length(body_schema) <= 16384),
  body_schema_mode text not null default 'describe' check (body_schema_mode in ('describe', 'enforce')),
  -- Limits of receives, null where there is none: messages in flight, messages a second, and messages at once.
  maximum_in_flight integer check (maximum_in_flight between 1 and 120000),
  maximum_in_flight_per_group integer check (maximum_in_flight_per_group between 1 and 120000),
  maximum_receive_rate numeric check (maximum_receive_rate between 0.001 and 1000000),
  maximum_receive_rate_per_group numeric check (maximum_receive_rate_per_group between 0.001 and 1000000),
  receive_burst integer check (receive_burst between 1 and 1000000),
  -- Whether messages of a higher priority come first: always, or more often.
  priority_mode text not null default 'none' check (priority_mode in ('none', 'strict', 'weighted')),
  -- Whether one of these was ever set, or a group paused: then claim_limited_messages claims, and the messages of a standard
  -- queue are in lanes.
  limited boolean not null default false,
  -- Seconds for which a deduplication id is known: in a FIFO queue at least 300; in a standard queue 0 for no deduplication.
  deduplication_seconds integer not null default 0 check (deduplication_seconds between 0 and 31536000),
  -- The delay before a redelivery, in seconds, as JSON: {"base": …, "factor": …, "jitter": …, "maximum": …}; see retry_delay.
  retry_backoff text not null default '' check (retry_backoff = '' or length(retry_backoff) <= 1024 and retry_backoff::jsonb
    @? '$ ? (@.base >= 0 && @.base <= @.maximum && @.maximum <= 43200 && @.factor >= 1 && @.factor <= 100
      && @.jitter >= 0 && @.jitter <= 1)'),
  primary key (account, region, name),
  check (num_nulls(dead_letter_account, dead_letter_name, max_receive_count) in (0, 3)),
  constraint queue_throughput_scope check (fifo_throughput_limit = 'perQueue' or deduplication_scope = 'messageGroup')
);
-- For dead_letter_sources.
create index queue_dead_letter on skipmq.queue (dead_letter_account, region, dead_letter_name, name)
  where dead_letter_name is not null;
-- For send_messages, receive_messages and the other functions that take a queue's generation.
create unique index queue_id on skipmq.queue (queue_id);

-- Every generation that ever existed, for the janitor, which clears retired ones, and for the history, which has only
-- queue_id.
create table skipmq.generation (
  queue_id bigint primary key,
  account text collate "C" not null,
  region text collate "C" not null,
  name text collate "C" not null,
  history_mode text not null,
  created_at timestamptz not null,
  retired_at timestamptz,
  retired_as text check (retired_as in ('purged', 'deleted', 'moved')),
  cleared_at timestamptz
);
-- For create_queue: whether a queue of the name was deleted recently.
create index generation_name on skipmq.generation (account, region, name, retired_at);
-- For clear_retired: the generations left to clear.
create index generation_to_clear on skipmq.generation (retired_at)
  where retired_at is not null and cleared_at is null;

-- The names at home in this partition whose queue is in another one. A row stays after its queue is deleted, so that the
-- name is unique at any time.
create table skipmq.queue_place (
  account text collate "C" not null,
  region text collate "C" not null,
  name text collate "C" not null,
  partition integer not null,
  primary key (account, region, name)
);

-- The queues that are being moved from this partition to another one: no longer in the table queue, and current there under
-- new_queue_id once their messages are. The row is deleted when the home knows their new place.
create table skipmq.relocation (
  queue_id bigint primary key,
  new_queue_id bigint not null unique,
  account text collate "C" not null,
  region text collate "C" not null,
  name text collate "C" not null,
  -- The row of the table queue.
  queue jsonb not null,
  unique (account, region, name)
);
