-- Does: settles up to p_limit messages of purged and deleted queues as purged, and deletes those that another partition has
--   since their queue was moved there, without history; returns their number. A generation is
--   marked as cleared an hour after it was retired, when it has no messages: until then a send that looked up the queue
--   earlier may still commit.
-- Called by: the janitor.
-- Locks, in order: row of the job (does nothing when it is locked), message rows, skipping locked ones; group rows.
-- Raises: nothing.
-- Relies on index: generation_to_clear, message_visible, message_group_order, message_group_pkey, delayed_count_due,
--   delayed_message_pkey, paused_group_pkey.
-- Routed: to each partition; the results are added.
create function skipmq.clear_retired(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_retired record;
  v_tids tid[];
  v_groups integer;
  v_count integer := 0;
begin
  if not skipmq.hold_job('clear_retired') then
    return 0;
  end if;
  for v_retired in
    select i.queue_id, i.retired_at, i.retired_as
    from skipmq.generation i
    where i.retired_at is not null and i.cleared_at is null
      and not exists (select from skipmq.relocation l where l.queue_id = i.queue_id)
    order by i.retired_at
  loop
    select array_agg(h.tid) into v_tids
    from (
      select s.tid
      from (
        select m.ctid as tid from skipmq.message m
        where m.queue_id = v_retired.queue_id and m.group_no is null
        limit p_limit - v_count
        for no key update skip locked
      ) s
      union all
      select f.tid
      from (
        select m.ctid as tid from skipmq.message m
        where m.queue_id = v_retired.queue_id and m.group_no is not null
        limit p_limit - v_count
        for no key update skip locked
      ) f
    ) h;
    if v_tids is not null and v_retired.retired_as = 'moved' then
      delete from skipmq.message m where m.ctid = any (v_tids);
      get diagnostics v_groups = row_count;
      v_count := v_count + v_groups;
    elsif v_tids is not null then
      v_count := v_count + skipmq.settle(v_tids, 'purged');
    else
      delete from skipmq.message_group g
      where g.queue_id = v_retired.queue_id and g.group_no = any (array(
        select o.group_no
        from skipmq.message_group o
        where o.queue_id = v_retired.queue_id
        limit p_limit - v_count));
      get diagnostics v_groups = row_count;
      v_count := v_count + v_groups;
      if v_groups = 0 and v_retired.retired_at < v_now - interval '1 hour'
        and not exists (select from skipmq.message m where m.queue_id = v_retired.queue_id and m.group_no is null)
        and not exists (select from skipmq.message m where m.queue_id = v_retired.queue_id and m.group_no is not null)
      then
        delete from skipmq.queue_count c where c.queue_id = v_retired.queue_id;
        delete from skipmq.paused_group g where g.queue_id = v_retired.queue_id;
        delete from skipmq.delayed_message d where d.queue_id = v_retired.queue_id;
        delete from skipmq.delayed_count d where d.queue_id = v_retired.queue_id;
        update skipmq.generation i set cleared_at = v_now where i.queue_id = v_retired.queue_id;
      end if;
    end if;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
