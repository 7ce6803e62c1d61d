-- The topics. One lives in the partition of its name, with its subscriptions and the queues that are subscribed to it.
create table skipmq.topic (
  -- As the ids of queues: the upper bits are the number of the partition.
  topic_id bigint primary key,
  account text collate "C" not null check (account ~ '^[0-9]{12}$'),
  region text collate "C" not null check (region ~ '^[A-Za-z0-9-]{1,64}$'),
  name text collate "C" not null check (length(name) <= 256 and name ~ '^[A-Za-z0-9_-]+([.]fifo)?$'),
  -- The attributes that were set, as texts by their names.
  attributes jsonb not null default '{}' check (jsonb_typeof(attributes) = 'object'),
  tags jsonb not null default '{}' check (
    jsonb_typeof(tags) = 'object' and jsonb_array_length(jsonb_path_query_array(tags, '$.keyvalue()')) <= 50),
  subscriptions_deleted bigint not null default 0,
  created_at timestamptz not null,
  unique (account, region, name)
);

-- Who gets what is published to a topic.
create table skipmq.subscription (
  topic_id bigint not null references skipmq.topic on delete cascade,
  subscription_id uuid not null,
  protocol text not null,
  endpoint text not null,
  -- The account and the ARN of the caller that subscribed.
  owner text not null,
  principal text not null,
  -- What confirms it, if it had to be, within two days of created_at.
  token text,
  confirmed boolean not null default true,
  -- Whether a signed request confirmed it.
  authenticated boolean not null default false,
  -- Whether its link ended it, which its token revokes.
  ended boolean not null default false,
  -- Whether only a signed request of the owner may end it.
  signed_unsubscribe boolean not null default false,
  -- The attributes that were set, as texts by their names.
  attributes jsonb not null default '{}',
  -- What the node's address was, for links in messages.
  base_url text not null default '',
  -- The queue of the endpoint, and that of the redrive policy.
  account text collate "C",
  region text collate "C",
  name text collate "C",
  dead_letter_account text collate "C",
  dead_letter_region text collate "C",
  dead_letter_name text collate "C",
  raw boolean not null default false,
  -- What the filter policy was compiled to; null matches all. The networks of cidr are the variables of filter.
  filter jsonpath,
  networks jsonb,
  filters_body boolean not null default false,
  -- Whether the queue's policy with this digest allows the topic to send.
  policy_digest text,
  policy_allows boolean,
  -- The messages a second that the address takes, null for any, and when the next one may be claimed.
  throttle float8,
  throttled_until timestamptz not null default '-infinity',
  created_at timestamptz not null,
  primary key (topic_id, subscription_id)
);
create unique index subscription_endpoint on skipmq.subscription (topic_id, protocol, md5(endpoint));
-- For list_subscriptions: that of a token.
create index subscription_token on skipmq.subscription (token) where token is not null;
-- For the move of a queue to another partition.
create index subscription_queue on skipmq.subscription (account, region, name) where name is not null;
-- For claim_deliveries: those over HTTP.
create index subscription_http on skipmq.subscription (topic_id, subscription_id) where protocol in ('http', 'https');
-- For expire_subscriptions: those to confirm.
create index subscription_pending on skipmq.subscription (created_at) where not confirmed;

-- What is to be delivered over HTTP.
create table skipmq.http_delivery (
  -- Of the message and its subscription, so that a retried publish stores it once.
  delivery_id uuid primary key,
  topic_id bigint not null,
  subscription_id uuid not null,
  message_id uuid not null,
  type text not null default 'Notification',
  body text not null,
  -- What the dead-letter queue gets as well.
  attributes text,
  attempt integer not null default 0,
  -- While a node delivers it: when another one may.
  due_at timestamptz not null,
  foreign key (topic_id, subscription_id) references skipmq.subscription on delete cascade
);
create index http_delivery_due on skipmq.http_delivery (subscription_id, due_at);
