-- The one schema of SkipMQ. Everything below lives in it; nothing outside is touched.
create schema if not exists skipmq;
comment on schema skipmq is 'SkipMQ: an Amazon-SQS-compatible message broker';

-- Sequences of messages: a standard queue promises no order, so that a backend may take ids in blocks.
create sequence skipmq.message_id_seq as bigint cache 64;
create sequence skipmq.queue_id_seq as integer;
