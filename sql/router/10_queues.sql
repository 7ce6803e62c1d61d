-- Queues by name. A create goes to the name's home, or to the partition of its dead-letter queue, which the home reserves.
create function skipmq_router.create_queue(
  p_partition integer, p_name text, p_attributes jsonb, p_tags jsonb, p_account text, p_region text, p_history_mode text,
  p_cooldown interval
) returns integer
language plproxy
as $$
  cluster 'skipmq';
  run on p_partition;
  select skipmq.create_queue(p_name, p_attributes, p_tags, p_account, p_region, p_history_mode, p_cooldown);
$$;

create function skipmq.create_queue(
  p_name text,
  p_attributes jsonb default '{}',
  p_tags jsonb default '{}',
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1'),
  p_history_mode text default 'metadata',
  p_cooldown interval default '60 seconds'
) returns integer
language plpgsql volatile
as $$
declare
  v_home integer := skipmq_router.home(p_account, p_region, p_name);
  v_target text := (nullif(p_attributes ->> 'RedrivePolicy', '')::jsonb) ->> 'deadLetterTargetArn';
  v_place integer;
  v_wanted integer;
begin
  v_wanted := coalesce(skipmq_router.partition_of_arn(v_target), v_home);
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
create function skipmq_router.get_queue(p_partition integer, p_name text, p_account text, p_region text)
returns table (
  queue_id integer, fifo boolean, attributes jsonb, tags jsonb, created_at timestamptz, modified_at timestamptz
)
language plproxy
as $$
  cluster 'skipmq';
  run on p_partition;
  select q.queue_id, q.fifo, q.attributes, q.tags, q.created_at, q.modified_at
    from skipmq.get_queue(p_name, p_account, p_region) q;
$$;

create function skipmq.get_queue(p_name text, p_account text, p_region text)
returns table (
  queue_id integer, fifo boolean, attributes jsonb, tags jsonb, created_at timestamptz, modified_at timestamptz
)
language plpgsql stable
as $$
declare
  v_home integer := skipmq_router.home(p_account, p_region, p_name);
  v_place integer;
begin
  begin
    return query select * from skipmq_router.get_queue(v_home, p_name, p_account, p_region);
    if found then
      return;
    end if;
  exception
    when others then
      v_place := skipmq_router.partition_of(p_account, p_region, p_name);
  end;
  v_place := coalesce(v_place, skipmq_router.place(v_home, p_account, p_region, p_name));
  if v_place <> v_home then
    return query select * from skipmq_router.get_queue(v_place, p_name, p_account, p_region);
  end if;
end $$;

create function skipmq_router.set_queue_attributes(p_queue_id integer, p_attributes jsonb) returns void
language plproxy
as $$
  cluster 'skipmq';
  run on p_queue_id;
  select skipmq.set_queue_attributes(p_queue_id, p_attributes);
$$;

create function skipmq.set_queue_attributes(p_queue_id integer, p_attributes jsonb) returns void
language plpgsql volatile
as $$
declare
  v_target text := (nullif(p_attributes ->> 'RedrivePolicy', '')::jsonb) ->> 'deadLetterTargetArn';
begin
  if v_target is not null then
    perform skipmq_router.check_same(p_queue_id, skipmq_router.partition_of_arn(v_target), 'The dead-letter queue is');
  end if;
  perform skipmq_router.set_queue_attributes(p_queue_id, p_attributes);
end $$;

create function skipmq_router.queue_places(p_name text, p_account text, p_limit integer)
returns table (account text, region text, queues bigint)
language plproxy
as $$
  cluster 'skipmq';
  run on all;
  target skipmq.queue_places;
$$;

create function skipmq.queue_places(p_name text, p_account text default null, p_limit integer default 1000)
returns table (account text, region text, queues bigint)
language sql stable
as $$
  select p.account, p.region, sum(p.queues)::bigint
  from skipmq_router.queue_places(p_name, p_account, p_limit) p
  group by p.account, p.region
  order by p.account, p.region
  limit p_limit
$$;
