-- The messages that `skipmq analytics forget` has erased: none of their content, so that they are not taken for lost.
create view skipmq_views.erased_message as
select e.message_id::text as message_id, e.queue_id, g.account, g.region, g.name as queue, e.erased_at
from skipmq.erased_message e
left join skipmq.generation g on g.queue_id = e.queue_id;
