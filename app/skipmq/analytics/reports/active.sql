-- The messages settled in the period, and the live ones.
select *
from message
where settled_at is null or (settled_at >= :since and settled_at < :until)
