-- Copies and moves, whose two queues must be in one partition.
create function skipmq_router.copy_messages(
  p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_target bigint, p_sender text
) returns table (place bigint, outcome text)
language plproxy
as $$
  cluster 'skipmq';
  run on int8shr(p_queue_id, 57);
  target skipmq.copy_messages;
$$;

create function skipmq.copy_messages(
  p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_target bigint, p_sender text default null
) returns table (place bigint, outcome text)
language plpgsql volatile
as $$
begin
  perform skipmq_router.check_same((p_queue_id >> 57)::integer, (p_target >> 57)::integer, 'The target is');
  return query select * from skipmq_router.copy_messages(p_queue_id, p_ids, p_message_ids, p_target, p_sender);
end $$;

create function skipmq_router.move_messages(p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_target bigint)
returns table (place bigint, outcome text)
language plproxy
as $$
  cluster 'skipmq';
  run on int8shr(p_queue_id, 57);
  target skipmq.move_messages;
$$;

create function skipmq.move_messages(p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_target bigint)
returns table (place bigint, outcome text)
language plpgsql volatile
as $$
begin
  perform skipmq_router.check_same((p_queue_id >> 57)::integer, (p_target >> 57)::integer, 'The target is');
  return query select * from skipmq_router.move_messages(p_queue_id, p_ids, p_message_ids, p_target);
end $$;

-- The partition of a task: its source's. The destination must be there too.
create function skipmq_router.partition_of_task(p_source_arn text, p_destination_arn text) returns integer
language plpgsql stable
as $$
declare
  v_source integer := skipmq_router.partition_of_arn(p_source_arn);
begin
  if p_destination_arn is not null then
    perform skipmq_router.check_same(v_source, skipmq_router.partition_of_arn(p_destination_arn), 'The destination is');
  end if;
  return v_source;
end $$;

create function skipmq_router.cancel_move_task(p_partition integer, p_task_id uuid, p_source_arn text) returns bigint
language plproxy
as $$
  cluster 'skipmq';
  run on p_partition;
  select skipmq.cancel_move_task(p_task_id, p_source_arn);
$$;

create function skipmq.cancel_move_task(p_task_id uuid, p_source_arn text default null) returns bigint
language plpgsql volatile
as $$
begin
  if p_source_arn is not null then
    return skipmq_router.cancel_move_task(skipmq_router.partition_of_arn(p_source_arn), p_task_id, p_source_arn);
  end if;
  for v_partition in 0 .. skipmq_router.partitions() - 1 loop
    begin
      return skipmq_router.cancel_move_task(v_partition, p_task_id, null);
    exception
      when sqlstate 'SQ010' then
        null;
    end;
  end loop;
  raise exception 'Task does not exist.' using errcode = 'SQ010';
end $$;
