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

create function skipmq.cancel_move_task
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
