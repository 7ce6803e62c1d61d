-- A router: a database with the schema's functions and none of its tables. Each call of a function goes to the partition
-- that has the queue, by PL/Proxy, and commits there. The generated functions follow these files: the line "Routed:" of a
-- function's contract says how. skipmq_router has what they share; its functions that take a partition number first run
-- there. A function of schema skipmq stands here without parameters and result: it gets those that the partitions have.
--
-- The map, skipmq_router.map, is a view of constants that `skipmq partitions` creates first: the number of partitions, how
-- many there were when they were made (homes), what identifies those that belong together (map_id), and the role of the
-- schema's owner in the partitions. A statement that waited for a change of the map would not see the row of a new table,
-- whose definition it sees. The upper bits of a queue id, queue_id >> 57, are the number of its partition.

create function skipmq_router.partitions() returns integer
language sql stable
as 'select m.partitions from skipmq_router.map m';

-- The partition among p_partitions that a name chooses: that with the greatest hash of name and number, so that another
-- partition takes its share from all and moves nothing else. A name and that name with a usual suffix of dead-letter queues
-- choose the same. md5 and not hashtext, whose values may change with the version of the server.
create function skipmq_router.chosen(p_account text, p_region text, p_name text, p_partitions integer) returns integer
language sql immutable
as $$
  select n
  from generate_series(0, p_partitions - 1) n
  order by md5(p_account || ':' || p_region || ':' || regexp_replace(
    regexp_replace(p_name, '\.fifo$', ''), '[-_.]?(dlq|dead|dead-?letters?|dead_letters?|errors?|failed)$', '', 'i')
    || ':' || n) collate "C" desc
  limit 1
$$;

-- The home of a name: the partition that knows where its queue is. It never changes: partitions that were added are no home.
create function skipmq_router.home(p_account text, p_region text, p_name text) returns integer
language sql stable
as $$
  select skipmq_router.chosen(p_account, p_region, p_name, m.homes) from skipmq_router.map m
$$;

create function skipmq_router.has_queue(p_partition integer, p_account text, p_region text, p_name text) returns boolean
language plproxy
as $$
  cluster 'skipmq';
  run on p_partition;
  select exists (select from skipmq.get_queue(p_name, p_account, p_region));
$$;

create function skipmq_router.queue_place(p_partition integer, p_account text, p_region text, p_name text) returns integer
language plproxy
as $$
  cluster 'skipmq';
  run on p_partition;
  select skipmq.queue_place(p_account, p_region, p_name);
$$;

-- The partition for which the home has reserved a name; null when it is the home.
create function skipmq_router.place(p_partition integer, p_account text, p_region text, p_name text) returns integer
language plpgsql stable
as $$
declare
  v_place integer := skipmq_router.queue_place(p_partition, p_account, p_region, p_name);
begin
  if v_place >= skipmq_router.partitions() then
    raise exception 'this router does not have partition %', v_place using errcode = '40001',
      hint = 'run `skipmq partitions add` for it';
  end if;
  return v_place;
end $$;

create function skipmq_router.reserve(
  p_partition integer, p_account text, p_region text, p_name text, p_place integer
) returns integer
language plproxy
as $$
  cluster 'skipmq';
  run on p_partition;
  select skipmq.reserve_queue(p_account, p_region, p_name, p_place);
$$;

-- The partition of a queue. Only its home knows that a queue is elsewhere; while the home is unavailable, the others are
-- asked, so that a queue depends on its own partition alone.
create function skipmq_router.partition_of(p_account text, p_region text, p_name text) returns integer
language plpgsql stable
as $$
declare
  v_home integer := skipmq_router.home(p_account, p_region, p_name);
begin
  return coalesce(skipmq_router.place(v_home, p_account, p_region, p_name), v_home);
exception
  when others then
    for v_other in 0 .. skipmq_router.partitions() - 1 loop
      begin
        if v_other <> v_home and skipmq_router.has_queue(v_other, p_account, p_region, p_name) then
          return v_other;
        end if;
      exception
        when others then
          null; -- It is unavailable too.
      end;
    end loop;
    raise;
end $$;

create function skipmq_router.partition_of_arn(p_arn text) returns integer
language sql stable strict
as $$
  select skipmq_router.partition_of(split_part(p_arn, ':', 5), split_part(p_arn, ':', 4), split_part(p_arn, ':', 6))
$$;

-- Refuses what would need a transaction in two partitions, given by their numbers.
create function skipmq_router.check_same(p_one integer, p_other integer, p_what text) returns void
language plpgsql stable
as $$
begin
  if p_one <> p_other then
    raise exception '%', p_what || ' in another partition. Create both queues in one partition: with names that differ only'
      ' in a suffix such as -dlq, or the source with a RedrivePolicy that names the other.' using errcode = 'SQ008';
  end if;
end $$;
