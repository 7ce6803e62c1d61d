-- The contract with those who read: Spark, a console, any SQL client with the role skipmq_reader. Columns
-- have plain types that every driver knows (uuid as text, transaction numbers as bigint); views gain columns
-- at their end and lose none.
create schema if not exists skipmq_views;
comment on schema skipmq_views is 'SkipMQ: what readers may see';
