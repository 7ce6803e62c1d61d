-- The days of the history that an export has completely: the number of rows, all of transactions below to_xid; when an
-- export last compared their rows; whether the database has dropped them; the identifier of the lake's table, and its URL.
create view skipmq_views.archived_day as
select a.day, a.rows, a.to_xid, a.archived_at, a.dropped, a.lake, a.place
from skipmq.archived_day a;
