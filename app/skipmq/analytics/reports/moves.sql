-- The last move of each dead letter: its ID, when it was moved, and from which queue.
select id, max(settled_at) as moved_at, max_by(queue_id, settled_at) as moved_from
from history
where outcome = 'dead-lettered'
group by id
