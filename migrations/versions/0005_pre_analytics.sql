-- What the schema gains for analytics: views for readers, who settled a message, days that an export has, and
-- an end to snapshots that are held for too long. Nodes of the release before call the new functions as the old.
set local check_function_bodies = off;

alter table skipmq.history add column node text;
-- The days that an export has in whole: how many rows, all of transactions below to_xid.
create table skipmq.archived_day (
  day date primary key,
  rows bigint not null,
  to_xid bigint not null,
  archived_at timestamptz not null
);

-- Does: moves messages of a FIFO queue, whose groups the caller has locked, to the ends of their groups in
--   other FIFO queues, in the order given. As 'dead-lettered' they go on counting their receives, remember
--   where they came from and leave a row of history; as 'redriven' they begin anew. Gives their number.
-- Called by: clear_group, move_fifo_batch.
-- Locks, in order: queue rows of the targets (shared: they are neither purged nor deleted meanwhile),
--   advisory locks of the target groups by number, message rows. Dead letters wait for no sender, whom
--   another of the receiver's groups may keep waiting: nothing is moved then.
-- Raises: nothing.
-- Relies on index: queue_id, message_pkey, message_group_pkey.
create or replace function skipmq.append_fifo(p_queue_id integer, p_ids bigint[], p_targets integer[], p_how text)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_source skipmq.queue;
  v_dead boolean := p_how = 'dead-lettered';
  v_now timestamptz;
  v_groups bigint[];
  v_count integer;
begin
  select q.* into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  perform from (select distinct u.target from unnest(p_targets) u (target) order by 1) u
  cross join lateral (
    select from skipmq.queue q where q.queue_id = u.target for key share
  ) q;
  v_groups := array(
    select distinct hashtextextended(m.group_id, u.target)
    from unnest(p_ids, p_targets) u (id, target)
    cross join lateral (select m.group_id from skipmq.message m where m.id = u.id) m
    order by 1);
  if not v_dead then
    perform pg_advisory_xact_lock(u.group_no) from unnest(v_groups) u (group_no);
  elsif not (select bool_and(pg_try_advisory_xact_lock(u.group_no)) from unnest(v_groups) u (group_no)) then
    return 0;
  end if;
  v_now := skipmq.clock();
  with numbered as materialized (
    select u.id, u.target, nextval('skipmq.sequence_number_seq') as sequence_number
    from (
      select u.id, u.target
      from unnest(p_ids, p_targets) with ordinality u (id, target, place)
      -- Gone meanwhile: its messages stay where they are.
      where exists (select from skipmq.queue q where q.queue_id = u.target)
      order by u.place
    ) u
  ), moved as (
    update skipmq.message m set
      queue_id = n.target,
      group_no = hashtextextended(m.group_id, n.target),
      sequence_number = n.sequence_number,
      visible_at = v_now,
      enqueued_at = v_now,
      receive_count = m.receive_count + 1,
      receive_base = case when v_dead then m.receive_base + 1 else m.receive_count + 1 end,
      first_received_at = case when v_dead then m.first_received_at end,
      dead_letter_source = case when v_dead
        then format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name) end
    from numbered n
    where m.id = n.id and m.queue_id = p_queue_id
    returning m.*
  ), grouped as (
    insert into skipmq.message_group (queue_id, group_no, available_at, first_number)
    select f.queue_id, f.group_no, v_now, f.first_number
    from (
      select m.queue_id, m.group_no, min(m.sequence_number) as first_number from moved m group by 1, 2
    ) f
    where current_setting('transaction_isolation') <> 'read committed' or not exists (
      select from skipmq.message_group g where g.queue_id = f.queue_id and g.group_no = f.group_no)
    on conflict do nothing
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change)
    select v_now, c.queue_id, sum(c.change)
    from moved m
    cross join lateral (values (m.queue_id, 1), (p_queue_id, -1)) c (queue_id, change)
    group by c.queue_id
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, pg_current_xact_id()::text::bigint, g.id, p_queue_id,
      g.receive_count - g.receive_base, octet_length(g.body), coalesce(octet_length(g.attributes), 0),
      g.message_id, 'dead-lettered', g.group_id, g.deduplication_id, g.sender, g.trace_header,
      case when v_source.history_mode = 'full' then g.attributes end,
      case when v_source.history_mode = 'full' then g.body end,
      nullif(current_setting('application_name'), '')
    from moved g
    where v_dead and v_source.history_mode <> 'off'
  )
  select count(*) into v_count from moved;
  return v_count;
end $$;
-- Does: gives how many days of the history ended more than p_keep ago and are there only because no export is
--   recorded that has all of them.
-- Called by: the janitor, for skipmq_history_days_unarchived.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: archived_day_pkey.
create function skipmq.count_unarchived_days(p_keep interval) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(*)::integer
  from (
    select to_date(right(c.relname, 8), 'YYYYMMDD'), -1
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'skipmq.history'::regclass and c.relname ~ '^history_[0-9]{8}$'
    union all
    select (h.settled_at at time zone 'UTC')::date, max(h.xid)
    from skipmq.history_default h
    group by 1
  ) d (day, xid)
  where d.day < ((skipmq.clock() - p_keep) at time zone 'UTC')::date
    and not exists (select from skipmq.archived_day a where a.day = d.day and a.to_xid > d.xid)
$$;
-- Does: deletes messages that are still at the receive named by p_receive_counts, with a row of history
--   each as the queue's history mode says; gives their number. Others are passed over: an old receipt
--   does nothing, and deleting twice is no error.
-- Called by: the DeleteMessage and DeleteMessageBatch actions; SQL users.
-- Locks, in order: message rows by id.
-- Raises: SQ005 when no queue has this incarnation.
-- Relies on index: message_pkey, queue_id.
--
-- The delete finds its rows by key, not by ctid: a change of visibility that commits meanwhile moves the
-- row, which is then found again and deleted; one that was received again no longer matches its receipt.
-- p_received_at is the time of the receive that the receipt stands for (null: not checked). A server that lost
-- messages gives their ids again: what was first received after that time is another message.
-- p_commit sets synchronous_commit for the rest of the transaction; null leaves it as it is.
create or replace function skipmq.delete_messages(
  p_queue_id integer, p_ids bigint[], p_receive_counts integer[], p_commit text default null,
  p_received_at timestamptz[] default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_mode text;
  v_count integer;
begin
  if p_commit is not null then
    perform set_config('synchronous_commit', p_commit, true);
  end if;
  select q.history_mode into v_mode from skipmq.queue q where q.queue_id = p_queue_id;
  if v_mode is null then
    raise exception 'no queue has the incarnation %', p_queue_id using errcode = 'SQ005';
  end if;

  with receipt as materialized (
    select u.id, u.receive_count, u.received_at
    from unnest(p_ids, p_receive_counts, p_received_at) u (id, receive_count, received_at)
    order by u.id
  ), gone as (
    delete from skipmq.message m
    using receipt r
    where m.id = r.id and m.receive_count = r.receive_count and m.queue_id = p_queue_id
      and (r.received_at is null or m.first_received_at <= r.received_at)
    returning m.*
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, pg_current_xact_id()::text::bigint, g.id, g.queue_id,
      g.receive_count - g.receive_base, octet_length(g.body), coalesce(octet_length(g.attributes), 0),
      g.message_id, 'deleted', g.group_id, g.deduplication_id, g.sender, g.trace_header,
      case when v_mode = 'full' then g.attributes end,
      case when v_mode = 'full' then g.body end,
      nullif(current_setting('application_name'), '')
    from gone g
    where v_mode <> 'off'
  )
  select count(*) into v_count from gone;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change) values (v_now, p_queue_id, -v_count);
  end if;
  return v_count;
end $$;
drop function skipmq.drop_history_partitions(interval);
-- Does: drops the history's partitions whose last day ended more than p_keep ago, and deletes what the
--   default partition has of such days; gives the number of partitions. With p_archived only of days that
--   an export has recorded, and only if nothing was settled in them since.
-- Called by: the janitor.
-- Locks, in order: advisory lock of the job (when it is held elsewhere nothing is done), the partition
--   and the history table, briefly.
-- Raises: 22023 when p_keep is less than a day; 55P03 when a reader holds a partition for longer than the
--   lock_timeout: try again later.
-- Relies on index: history_xid, archived_day_pkey.
create function skipmq.drop_history_partitions(p_keep interval, p_archived boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  v_oldest date := ((skipmq.clock() - p_keep) at time zone 'UTC')::date;
  v_day date;
  v_name text;
  v_to bigint;
  v_late boolean;
  v_names text[] := '{}';
begin
  if p_keep < interval '1 day' then
    raise exception 'the history is kept for a day at least' using errcode = '22023';
  end if;
  if not pg_try_advisory_xact_lock(hashtext('skipmq'), hashtext('drop_history_partitions')) then
    return 0;
  end if;
  for v_day, v_name, v_to in
    select d.day, c.relname, a.to_xid
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
    left join skipmq.archived_day a on a.day = d.day
    where i.inhparent = 'skipmq.history'::regclass
      and c.relname ~ '^history_[0-9]{8}$'
      and d.day < v_oldest
      and (not p_archived or a.day is not null)
    order by 1
  loop
    if p_archived then
      -- Whoever still settles something in it has ended then; who comes later finds the default partition.
      execute format('lock table skipmq.%I in access exclusive mode', v_name);
      execute format('select exists (select from skipmq.%I h where h.xid >= $1)', v_name)
      into v_late using v_to;
      if v_late then
        delete from skipmq.archived_day a where a.day = v_day;
        continue;
      end if;
    end if;
    v_names := v_names || v_name;
  end loop;
  delete from skipmq.history_default h
  where h.settled_at < v_oldest::timestamp at time zone 'UTC'
    and (not p_archived or exists (
      select from skipmq.archived_day a
      where a.day = (h.settled_at at time zone 'UTC')::date and h.xid < a.to_xid));
  -- Last, and at once: from here on whoever settles a message waits for this to end.
  foreach v_name in array v_names loop
    execute format('drop table skipmq.%I', v_name);
  end loop;
  return cardinality(v_names);
end $$;
-- Does: ends the sessions in this database of skipmq_reader, and of its members, whose transaction is older than
--   p_limit and has a snapshot or wrote: until they end nothing can be cleared up. Never those of superusers, nor of
--   who may act as the owner of the schema or as skipmq_node. Gives each with its role, and how old it was.
-- Called by: the janitor.
-- Locks, in order: none.
-- Raises: 42501 when there was nobody to end and the owner of the function may not see or end the sessions of some
--   of these roles: grant it those.
-- Relies on index: none.
create function skipmq.end_long_snapshots(p_limit interval)
returns table (pid integer, role name, application_name text, held interval)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_owner oid := (select n.nspowner from pg_namespace n where n.nspname = 'skipmq');
  v_everybody boolean := pg_has_role('pg_signal_backend', 'usage') and pg_has_role('pg_read_all_stats', 'usage');
  v_mine boolean;
  v_holds boolean;
  v_ended boolean := false;
  v_others name[] := '{}';
  v_names text;
begin
  for pid, role, application_name, held, v_holds, v_mine in
    select a.pid, r.rolname, a.application_name, clock_timestamp() - a.xact_start,
      a.backend_type = 'client backend' and (a.backend_xmin is not null or a.backend_xid is not null),
      v_everybody or pg_has_role(r.oid, 'usage')
    from pg_stat_activity a
    join pg_roles r on r.oid = a.usesysid
    where a.datname = current_database()
      -- Of a role that does not exist nobody is a member (null), of all others every superuser is.
      and pg_has_role(r.oid, to_regrole('skipmq_reader'), 'member')
      and pg_has_role(r.oid, to_regrole('skipmq_node'), 'member') is not true
      and not pg_has_role(r.oid, v_owner, 'member')
  loop
    if not v_mine then
      v_others := v_others || role;
    elsif v_holds and held > p_limit then
      -- Not in the query: the planner may test that first, of every session.
      if pg_terminate_backend(pid) then
        v_ended := true;
        return next;
      end if;
    end if;
  end loop;
  if not v_ended and v_others <> '{}' then
    select string_agg(distinct quote_ident(o.role), ', ') into v_names from unnest(v_others) o (role);
    raise exception '% may not end sessions of % that hold up the database', current_user, v_names
      using errcode = '42501', hint = format('grant %s to %I', v_names, current_user);
  end if;
end $$;
-- Does: moves up to p_limit visible messages of a shard of a standard queue that have been received p_most times to
--   its dead-letter queue, where they are visible at once, with a row of history each; gives their number.
-- Called by: receive_messages, when it finds too few that it may give.
-- Locks, in order: queue row of the dead-letter queue (shared: it is neither purged nor deleted
--   meanwhile), message rows, skipping those that others hold.
-- Raises: nothing.
-- Relies on index: message_visible.
--
-- The move grows the fence, so that old receipts die, and hides that growth from the count that users see.
create or replace function skipmq.move_dead_letters(
  p_queue_id integer, p_shard smallint, p_target integer, p_most integer, p_from timestamptz, p_to timestamptz, p_limit integer
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_source skipmq.queue;
  v_now timestamptz;
  v_count integer;
begin
  select q.* into v_source from skipmq.queue q where q.queue_id = p_queue_id;
  if not found then -- Purged a moment ago.
    return 0;
  end if;
  perform from skipmq.queue q where q.queue_id = p_target for key share;
  if not found then
    return 0;
  end if;
  v_now := skipmq.write_time();
  with head as materialized (
    select m.ctid as tid
    from skipmq.message m
    where m.queue_id = p_queue_id and m.shard = p_shard and m.group_no is null
      and m.visible_at >= p_from and m.visible_at <= p_to
      and m.receive_count - m.receive_base >= p_most
    order by m.visible_at
    limit p_limit
    for no key update skip locked
  ), moved as (
    update skipmq.message m set
      queue_id = p_target,
      shard = 0,
      visible_at = v_now,
      receive_count = m.receive_count + 1,
      receive_base = m.receive_base + 1,
      dead_letter_source = format('arn:aws:sqs:%s:%s:%s', v_source.region, v_source.account, v_source.name)
    from head h
    where m.ctid = h.tid
    returning m.*
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, pg_current_xact_id()::text::bigint, g.id, p_queue_id,
      g.receive_count - g.receive_base, octet_length(g.body), coalesce(octet_length(g.attributes), 0),
      g.message_id, 'dead-lettered', g.group_id, g.deduplication_id, g.sender, g.trace_header,
      case when v_source.history_mode = 'full' then g.attributes end,
      case when v_source.history_mode = 'full' then g.body end,
      nullif(current_setting('application_name'), '')
    from moved g
    where v_source.history_mode <> 'off'
  )
  select count(*) into v_count from moved;
  if v_count > 0 then
    insert into skipmq.queue_delta (at, queue_id, change)
    values (v_now, p_queue_id, -v_count), (v_now, p_target, v_count);
  end if;
  return v_count;
end $$;
-- Does: gives since when the oldest transaction has been open that keeps this database from clearing up: one here
--   that has a snapshot or wrote, one of another database that wrote (every snapshot here keeps what it might see),
--   one that is prepared, since then. Null when there is none.
-- Called by: the janitor, for skipmq_oldest_snapshot_seconds.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Where the owner of the schema is not in pg_monitor it sees only sessions of roles that it has. Nobody notes since
-- when a replication slot or a standby with hot_standby_feedback holds something, so that they are not in it.
create function skipmq.oldest_snapshot() returns timestamptz
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select min(t.began)
  from (
    select a.xact_start
    from pg_stat_activity a
    where (a.backend_xid is not null or (a.backend_xmin is not null and a.datname = current_database()))
      and a.pid <> pg_backend_pid()
      -- A vacuum shows a snapshot, but nothing is kept for it.
      and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
    union all
    select p.prepared from pg_prepared_xacts p
  ) t (began)
$$;
-- Does: records that an export has all of a day of the history: p_rows rows, all of transactions below p_to.
--   Gives false, and records nothing, while that is not so: the day is not over, transactions below p_to may
--   still be open, or the day has other rows. Of a day whose partition was dropped it gives true.
-- Called by: the export, as a node; SQL users.
-- Locks, in order: archived_day row.
-- Raises: nothing.
-- Relies on index: archived_day_pkey.
--
-- It counts the day's rows itself, so that a day is dropped on the word of the database, not of the export.
create function skipmq.record_archived_day(p_day date, p_rows bigint, p_to bigint) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
  v_from timestamptz := p_day::timestamp at time zone 'UTC';
  v_until timestamptz := (p_day + 1)::timestamp at time zone 'UTC';
  v_rows bigint;
  v_late bigint;
begin
  if exists (select from skipmq.archived_day a where a.day = p_day and a.rows = p_rows) then
    return true;
  end if;
  if skipmq.clock() < v_until or pg_snapshot_xmin(pg_current_snapshot())::text::bigint < p_to then
    return false;
  end if;
  select count(*) filter (where h.xid < p_to), count(*) filter (where h.xid >= p_to)
  into v_rows, v_late
  from skipmq.history h
  where h.settled_at >= v_from and h.settled_at < v_until;
  if v_rows <> p_rows or v_late > 0 then
    return false;
  end if;
  insert into skipmq.archived_day as a (day, rows, to_xid, archived_at)
  values (p_day, p_rows, p_to, skipmq.clock())
  on conflict (day) do update set rows = excluded.rows, to_xid = excluded.to_xid, archived_at = excluded.archived_at;
  return true;
end $$;
-- Does: deletes the given rows, which the caller has locked, and leaves a row of history for each as the
--   history mode of their queue says; gives their number.
-- Called by: expire_visible, clear_retired.
-- Locks, in order: none but what the caller holds.
-- Raises: nothing.
-- Relies on index: none (rows by ctid), incarnation_pkey, queue_id.
create or replace function skipmq.settle(p_tids tid[], p_outcome text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_xid bigint := pg_current_xact_id()::text::bigint;
  v_count integer;
begin
  with gone as (
    delete from skipmq.message m where m.ctid = any (p_tids) returning m.*
  ), kept as (
    insert into skipmq.history (
      settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
      attribute_bytes, message_id, outcome, group_id, deduplication_id, sender, trace_header, attributes, body, node)
    select
      v_now, g.sent_at, g.first_received_at, v_xid, g.id, g.queue_id, g.receive_count - g.receive_base,
      octet_length(g.body), coalesce(octet_length(g.attributes), 0), g.message_id, p_outcome, g.group_id,
      g.deduplication_id, g.sender, g.trace_header,
      case when i.mode = 'full' then g.attributes end,
      case when i.mode = 'full' then g.body end,
      nullif(current_setting('application_name'), '')
    from gone g
    cross join lateral (
      select coalesce(
        (select q.history_mode from skipmq.queue q where q.queue_id = g.queue_id),
        (select r.history_mode from skipmq.incarnation r where r.queue_id = g.queue_id)) as mode
    ) i
    where i.mode <> 'off'
  ), counted as (
    insert into skipmq.queue_delta (at, queue_id, change)
    select v_now, g.queue_id, -count(*) from gone g group by g.queue_id
  )
  select count(*) into v_count from gone;
  return v_count;
end $$;
-- Does: gives the timeline of this server, which a failover makes another: on a primary the one that it writes,
--   on a standby the one that it follows; null on a standby that is connected to nobody, where nobody can know.
-- Called by: the view skipmq_views.server; SQL users.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
--
-- Where the owner of the schema is not in pg_monitor a standby gives what its control file says, which is up to
-- a checkpoint behind. Source: PostgreSQL manual, 28.2.6 pg_stat_wal_receiver; 9.27.11 pg_control_recovery.
create function skipmq.timeline() returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not pg_is_in_recovery() then
    return ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
  end if;
  if pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
    return (select r.received_tli from pg_stat_wal_receiver r);
  end if;
  return (select r.min_recovery_end_timeline from pg_control_recovery() r);
end $$;
-- The contract with those who read: Spark, a console, any SQL client with the role skipmq_reader. Columns
-- have plain types that every driver knows (uuid as text, transaction numbers as bigint); views gain columns
-- at their end and lose none.
create schema if not exists skipmq_views;
comment on schema skipmq_views is 'SkipMQ: what readers may see';
-- Every queue that is there, and every one that was: a row for each incarnation, since a purge begins a new
-- one. Of those that are over (retired_at) only the name is known, and how they ended (purged, deleted).
-- Times in seconds, sizes in bytes, tags as JSON.
create view skipmq_views.queue as
select
  i.queue_id, i.account, i.region, i.name as queue, i.name like '%.fifo' as fifo,
  i.created_at, i.retired_at, i.retired_as,
  coalesce(q.history_mode, i.history_mode) as history_mode,
  q.visibility_timeout, q.delay_seconds, q.maximum_message_size, q.message_retention_period,
  q.receive_message_wait_time_seconds, q.dead_letter_account, q.dead_letter_name, q.max_receive_count,
  q.replication_mode, q.tags::text as tags
from skipmq.incarnation i
left join skipmq.queue q on q.queue_id = i.queue_id;
-- Every settled message, with the name of its queue, which may be gone. outcome is deleted, expired, purged
-- or dead-lettered (then it lives on in another queue). attributes (JSON) and body are there where the queue's
-- history mode was full. An incremental reader takes windows of xid below the oldest open transaction,
-- pg_snapshot_xmin(pg_current_snapshot()), and never `id > last`: ids are not in the order of commits.
create view skipmq_views.history as
select
  h.settled_at, h.sent_at, h.first_received_at, h.xid, h.id, h.queue_id, i.account, i.region, i.name as queue,
  i.name like '%.fifo' as fifo, h.receive_count, h.body_bytes, h.attribute_bytes,
  h.message_id::text as message_id, h.outcome, h.group_id, h.deduplication_id, h.sender, h.trace_header,
  h.node, h.attributes, h.body
from skipmq.history h
left join skipmq.incarnation i on i.queue_id = h.queue_id;
-- The history without what users wrote: neither attributes nor body.
create view skipmq_views.history_metadata as
select
  h.settled_at, h.sent_at, h.first_received_at, h.xid, h.id, h.queue_id, i.account, i.region, i.name as queue,
  i.name like '%.fifo' as fifo, h.receive_count, h.body_bytes, h.attribute_bytes,
  h.message_id::text as message_id, h.outcome, h.group_id, h.deduplication_id, h.sender, h.trace_header,
  h.node
from skipmq.history h
left join skipmq.incarnation i on i.queue_id = h.queue_id;
-- Every message that waits, is delayed or is in flight. retired: its queue was purged or deleted, nobody can
-- receive it any more, and the history will have it soon. receive_count is what receivers were told.
-- Read it seldom and fast: while a snapshot of it is held nothing can be cleared up.
create view skipmq_views.message as
select
  m.visible_at, m.sent_at, m.enqueued_at, m.first_received_at, m.id, m.queue_id, i.account, i.region,
  i.name as queue, i.name like '%.fifo' as fifo, i.retired_at is not null as retired,
  m.receive_count - m.receive_base as receive_count, octet_length(m.body) as body_bytes,
  coalesce(octet_length(m.attributes), 0) as attribute_bytes, m.message_id::text as message_id,
  m.sequence_number, m.group_id, m.deduplication_id, m.sender, m.trace_header, m.dead_letter_source,
  m.attributes, m.body
from skipmq.message m
join skipmq.incarnation i on i.queue_id = m.queue_id;
-- The messages without what users wrote: neither attributes nor body, but for their sizes.
create view skipmq_views.message_metadata as
select
  m.visible_at, m.sent_at, m.enqueued_at, m.first_received_at, m.id, m.queue_id, i.account, i.region,
  i.name as queue, i.name like '%.fifo' as fifo, i.retired_at is not null as retired,
  m.receive_count - m.receive_base as receive_count, octet_length(m.body) as body_bytes,
  coalesce(octet_length(m.attributes), 0) as attribute_bytes, m.message_id::text as message_id,
  m.sequence_number, m.group_id, m.deduplication_id, m.sender, m.trace_header, m.dead_letter_source
from skipmq.message m
join skipmq.incarnation i on i.queue_id = m.queue_id;
-- The days of the history that an export has in whole: how many rows each, all of transactions below to_xid.
create view skipmq_views.archived_day as
select a.day, a.rows, a.to_xid, a.archived_at
from skipmq.archived_day a;
-- The server that is asked, in one row: whether it is a standby, and its timeline, which each failover makes
-- another; null where it cannot be known.
create view skipmq_views.server as
select pg_is_in_recovery() as standby, skipmq.timeline() as timeline;
-- Roles with the least that each needs. The owner is whoever runs the migrations. Roles belong to the
-- whole server: where the owner may not create them, an administrator does, and the migration is run
-- again. Neither can log in over a network until it is given a password.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['skipmq_node', 'skipmq_reader'] loop
    if not exists (select from pg_roles where rolname = v_role) then
      begin
        execute format('create role %I login', v_role);
      exception
        when insufficient_privilege then
          raise warning 'role % is missing and % may not create it', v_role, current_user;
        when duplicate_object or unique_violation then
          null; -- Another database of this server was migrated at the same moment.
      end;
    end if;
  end loop;

  revoke execute on all functions in schema skipmq from public;
  if exists (select from pg_roles where rolname = 'skipmq_node') then
    grant usage on schema skipmq to skipmq_node;
    grant execute on all functions in schema skipmq to skipmq_node;
    -- Only for other functions, which call them with the owner's rights.
    revoke execute on function
      skipmq.settle(tid[], text),
      skipmq.move_batch(integer, integer, integer),
      skipmq.check_redrive(integer, text, text[]),
      skipmq.move_dead_letters(integer, smallint, integer, integer, timestamptz, timestamptz, integer),
      skipmq.expire_visible(integer, smallint, timestamptz, timestamptz, timestamptz, integer),
      skipmq.set_aside(integer, text[], timestamptz, integer),
      skipmq.expire_fifo(integer, timestamptz, integer),
      skipmq.move_fifo_batch(integer, integer, integer),
      skipmq.append_fifo(integer, bigint[], integer[], text),
      skipmq.clear_group(integer, bigint, timestamptz, timestamptz, integer, integer),
      skipmq.lock_groups(integer, bigint[]),
      skipmq.refresh_groups(integer, bigint[]),
      skipmq.check_message(integer, text, jsonb)
      from skipmq_node;
  end if;
  if exists (select from pg_roles where rolname = 'skipmq_node') then
    grant usage on schema skipmq_views to skipmq_node;
    grant select on all tables in schema skipmq_views to skipmq_node;
  end if;
  if exists (select from pg_roles where rolname = 'skipmq_reader') then
    revoke usage on schema skipmq from skipmq_reader;
    grant usage on schema skipmq_views to skipmq_reader;
    grant select on all tables in schema skipmq_views to skipmq_reader;
    -- For the view that asks it.
    grant execute on function skipmq.timeline() to skipmq_reader;
  end if;
end $$;

-- What readers may not do even by mistake: write, read for hours, keep a transaction open and idle, take all
-- connections. A role that has been given other values of these keeps them. The owner may end its sessions.
do $$
declare
  v_setting record;
begin
  if not exists (select from pg_roles where rolname = 'skipmq_reader') then
    return;
  end if;
  for v_setting in
    select s.name, s.value
    from (values
      ('default_transaction_read_only', 'on'), ('statement_timeout', '30min'),
      ('idle_in_transaction_session_timeout', '1min')) s (name, value)
    where not exists (
      select from pg_roles r cross join lateral unnest(r.rolconfig) c (text)
      where r.rolname = 'skipmq_reader' and c.text like s.name || '=%')
  loop
    execute format('alter role skipmq_reader set %I = %L', v_setting.name, v_setting.value);
  end loop;
  if exists (select from pg_roles r where r.rolname = 'skipmq_reader' and r.rolconnlimit = -1) then
    alter role skipmq_reader connection limit 32;
  end if;
  if not pg_has_role(current_user, 'skipmq_reader', 'usage') then
    execute format('grant skipmq_reader to %I', current_user);
  end if;
exception
  when insufficient_privilege then
    raise warning 'role skipmq_reader has no limits, or % may not end its sessions: an administrator sets both',
      current_user;
  when internal_error then
    -- Another database of this server is migrated at the same moment.
    raise notice 'role skipmq_reader is changed by another migration';
end $$;
