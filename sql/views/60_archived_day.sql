-- The days of the history that an export has in whole: how many rows each, all of transactions below to_xid.
create view skipmq_views.archived_day as
select a.day, a.rows, a.to_xid, a.archived_at
from skipmq.archived_day a;
