-- The days of the history that an export has in whole: how many rows each, all of transactions below to_xid; when the
-- last export saw their files; whether the database has dropped them since.
create view skipmq_views.archived_day as
select a.day, a.rows, a.to_xid, a.archived_at, a.dropped
from skipmq.archived_day a;
