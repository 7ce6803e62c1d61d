-- One life cycle of a batch through PGMQ's functions, each call a transaction.
select count(*) from pgmq.send_batch(:queue, array_fill(jsonb_build_object('x', repeat('x', :bytes::int - 9)), array[:batch::int]));
select coalesce(array_agg(msg_id), '{}') as ids from pgmq.read(:queue, 600, :batch) \gset
select count(*) as deleted from pgmq.delete(:queue, :ids::bigint[]) \gset
