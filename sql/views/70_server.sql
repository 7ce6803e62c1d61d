-- The server that is asked, in one row: whether it is a standby, and its timeline, which each failover makes
-- another; null where it cannot be known.
create view skipmq_views.server as
select pg_is_in_recovery() as standby, skipmq.timeline() as timeline;
