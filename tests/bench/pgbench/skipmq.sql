-- One life cycle of a batch through our SQL functions, each call a transaction as the nodes make it.
-- The bodies never leave the server: with large ones this is more than a limit.
select skipmq.send_messages(
  :queue, array(select gen_random_uuid() from generate_series(1, :batch::int)), array_fill(repeat('x', :bytes::int), array[:batch::int]),
  null, null, null, null, null, 'on');
select
  coalesce(array_agg(id) filter (where id is not null), '{}') as ids,
  coalesce(array_agg(receive_count) filter (where id is not null), '{}') as counts,
  coalesce(array_agg(message_id) filter (where id is not null), '{}') as message_ids
from skipmq.receive_messages(:queue, :batch, 600, :lax) \gset
select skipmq.delete_messages(:queue, :ids, :counts, :message_ids, :lax) as deleted \gset
