-- Queues by name. A create goes to the partition that the name chooses, or to that of its dead-letter queue; the home
-- reserves it.
create function skipmq.create_queue
language plpgsql volatile
as $$
declare
  v_home integer := skipmq_router.home(p_account, p_region, p_name);
  v_target text := (nullif(p_attributes ->> 'RedrivePolicy', '')::jsonb) ->> 'deadLetterTargetArn';
  v_place integer;
  v_wanted integer;
begin
  v_wanted := coalesce(
    skipmq_router.partition_of_arn(v_target),
    skipmq_router.chosen(p_account, p_region, p_name, skipmq_router.partitions()));
  -- Twice: meanwhile the home may have reserved the name.
  for v_try in 1 .. 2 loop
    v_place := coalesce(skipmq_router.place(v_home, p_account, p_region, p_name), v_home);
    if v_place = v_home and v_wanted <> v_home then
      v_place := skipmq_router.reserve(v_home, p_account, p_region, p_name, v_wanted);
    end if;
    if v_target is not null then
      perform skipmq_router.check_same(v_place, v_wanted, 'The dead-letter queue is');
    end if;
    begin
      return skipmq_router.create_queue(
        v_place, p_name, p_attributes, p_tags, p_account, p_region, p_history_mode, p_cooldown);
    exception
      when sqlstate 'SQ013' then
        null;
    end;
  end loop;
  raise exception 'queue % is being created in another partition', p_name using errcode = '40001';
end $$;

-- A queue that is at home costs one call.
create function skipmq.get_queue
language plpgsql stable
as $$
declare
  v_asked integer := skipmq_router.home(p_account, p_region, p_name);
  v_place integer;
  v_found record;
begin
  begin
    select g.* into v_found from skipmq_router.get_queue(v_asked, p_name, p_account, p_region) g;
    if not found then
      v_place := skipmq_router.place(v_asked, p_account, p_region, p_name);
    end if;
  exception
    when others then
      v_place := skipmq_router.partition_of(p_account, p_region, p_name);
  end;
  if v_place is not null then
    v_asked := v_place;
    select g.* into v_found from skipmq_router.get_queue(v_asked, p_name, p_account, p_region) g;
  end if;
  if v_found.queue_id >> 57 <> v_asked then -- It is being moved, and may have arrived.
    return query select g.* from skipmq_router.get_queue((v_found.queue_id >> 57)::integer, p_name, p_account, p_region) g;
    if found then
      return;
    end if;
  end if;
  if v_found.queue_id is not null then
    return query select
      v_found.queue_id, v_found.fifo, v_found.attributes, v_found.tags, v_found.created_at, v_found.modified_at;
  end if;
end $$;

create function skipmq.set_queue_attributes
language plpgsql volatile
as $$
declare
  v_target text := (nullif(p_attributes ->> 'RedrivePolicy', '')::jsonb) ->> 'deadLetterTargetArn';
begin
  if v_target is not null then
    perform skipmq_router.check_same((p_queue_id >> 57)::integer, skipmq_router.partition_of_arn(v_target), 'The dead-letter queue is');
  end if;
  perform skipmq_router.set_queue_attributes((p_queue_id >> 57)::integer, p_queue_id, p_attributes);
end $$;

create function skipmq.queue_places
language sql stable
as $$
  select p.account, p.region, sum(p.queues)::bigint
  from skipmq_router.queue_places(p_name, p_account, p_limit) p
  group by p.account, p.region
  order by p.account, p.region
  limit p_limit
$$;
