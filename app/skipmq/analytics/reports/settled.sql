-- The messages settled in the period.
select *
from message
where settled_at >= :since and settled_at < :until
