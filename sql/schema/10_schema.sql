-- All objects of SkipMQ are in this schema, except the views for readers.
create schema if not exists skipmq;
comment on schema skipmq is 'SkipMQ: an Amazon-SQS-compatible message broker';

-- Message ids are in the order of arrival, by which oldest_message finds the oldest: no backend may cache a block of them.
create sequence skipmq.message_id_seq as bigint cache 1;
