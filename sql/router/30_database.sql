-- What nodes ask of the database itself, from the answers of all partitions.

-- The router's own state, whatever that of the partitions is: nodes see each of those themselves.
create function skipmq.database_state
language sql stable
as $$ select 'writable' $$;

create function skipmq.partition_map
language sql stable
as $$
  select null::integer, m.partitions, m.homes, m.map_id, a.addresses
  from skipmq_router.map m
  cross join (
    select array_agg(substr(o.text, strpos(o.text, '=') + 1)
      order by substr(o.text, 2, strpos(o.text, '=') - 2)::integer) as addresses
    from pg_foreign_server s, unnest(s.srvoptions) o (text)
    where s.srvname = 'skipmq' and o.text ~ '^p[0-9]+='
  ) a
$$;

-- The partition whose commits are held by the fewest servers.
create function skipmq.replication
language sql stable
as $$
  select r.names, r.required, r.listed, r.connected from skipmq_router.replication() r
  order by r.required, r.listed, r.connected limit 1
$$;

-- A position is that of each partition, separated by commas: all must be acknowledged.
create function skipmq.acknowledged
language sql volatile
as $$
  select string_agg(a."position", ',' order by n.partition), min(a.acknowledged)
  from generate_series(0, skipmq_router.partitions() - 1) n (partition)
  cross join lateral skipmq_router.acknowledged(
    n.partition, (string_to_array(p_position, ','))[n.partition + 1]) a
$$;

-- Sizes and numbers are added; of ages, lags and limits the greatest counts.
create function skipmq.database_statistics
language sql volatile
as $$
  select s.name, s.label, case when s.name ~ '\m(age|lag|xmin|most)\M' then max(s.value) else sum(s.value) end
  from skipmq_router.database_statistics() s
  group by s.name, s.label
$$;

-- One partition after the other: its number precedes the place.
create function skipmq.find_settled
language plpgsql stable
as $$
#variable_conflict use_column
declare
  v_partition integer := coalesce(split_part(p_place, ':', 1), '0')::integer;
  v_found record;
begin
  for v_found in
    select * from skipmq_router.find_settled(
      v_partition, p_message_id, p_since, nullif(split_part(p_place, ':', 2), ''), p_blocks)
  loop
    v_found.place := case
      when v_found.place is not null then v_partition || ':' || v_found.place
      when v_found.outcome is null and v_partition < skipmq_router.partitions() - 1 then v_partition + 1 || ':'
    end;
    return query select v_found.id, v_found.account, v_found.region, v_found.name, v_found.policy, v_found.outcome,
      v_found.sent_at, v_found.first_received_at, v_found.settled_at, v_found.receives, v_found.node, v_found.place;
  end loop;
end $$;

-- PL/Proxy has no time limit for a server that accepts a connection and answers nothing, so that a call ends when its client
-- is gone, which the router has to look for. A statement_timeout would cancel the statement there, and wait for that server.
do $$
begin
  execute format('alter database %I set client_connection_check_interval = ''2s''', current_database());
end $$;
