-- The server that answers, in one row: whether it is a standby, and its timeline, which changes with each failover; null
-- where it is unknown.
create view skipmq_views.server as
select pg_is_in_recovery() as standby, skipmq.timeline() as timeline;
