-- The interface for readers: Spark, the console, any SQL client with the role skipmq_reader. Columns have plain types that
-- every driver supports (uuid as text, transaction ids as bigint); new columns are added at the end of a view, and none
-- is removed.
create schema if not exists skipmq_views;
comment on schema skipmq_views is 'SkipMQ: what readers may see';
