-- Does: makes messages in flight visible now, as if their visibility timeout had ended: those of p_ids and p_message_ids, where an
--   id of null stands for the message in flight with that message id; and those of the FIFO groups p_groups, after them. A FIFO
--   group is freed with all its messages in flight. Returns an outcome for each, by its place: released, not-in-flight or missing;
--   and how many messages were made visible, 0 for one whose group is freed at an earlier place.
-- Called by: the ReleaseMessages action; SQL users.
-- Locks, in order: for FIFO group rows by number; message rows by id.
-- Raises: SQ005 when the generation does not exist.
-- Relies on index: queue_id, message_pkey, message_visible; for FIFO those of fifo_in_flight, group_received and refresh_groups.
-- Routed: to the partition of p_queue_id.
create function skipmq.release_messages(
  p_queue_id bigint, p_ids bigint[], p_message_ids uuid[], p_groups text[] default '{}'
) returns table (place bigint, outcome text, messages integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := skipmq.write_time();
  v_fifo boolean;
  v_ids bigint[] := p_ids; v_group_of bigint[]; -- Of each place: its message, and its group.
  v_chosen bigint[];
  v_released bigint[]; v_released_of bigint[]; -- Messages made visible, and their groups.
begin
  v_fifo := skipmq.check_generation(p_queue_id);
  if array_position(p_ids, null) is not null then
    v_ids := array(
      select coalesce(u.id, f.id)
      from unnest(p_ids, p_message_ids) with ordinality u (id, message_id, place)
      left join (
        select m.id, m.message_id from skipmq.message m
        where not v_fifo and m.queue_id = p_queue_id and m.shard = any (skipmq.shards(p_queue_id)) and m.group_no is null
          and m.visible_at > v_now and m.receive_count > m.receive_base and m.message_id = any (p_message_ids)
        union all
        select m.id, m.message_id
        from skipmq.fifo_in_flight(p_queue_id, v_now) f
        join skipmq.message m on m.queue_id = p_queue_id and m.id = f.id and m.message_id = any (p_message_ids)
        where v_fifo
      ) f on f.message_id = u.message_id
      order by u.place);
  end if;
  select array_agg(m.id order by u.place), array_agg(m.group_no order by u.place) into v_ids, v_group_of
  from unnest(v_ids, p_message_ids) with ordinality u (id, message_id, place)
  left join lateral (
    select m.id, m.group_no from skipmq.message m
    where m.queue_id = p_queue_id and m.id = u.id and m.message_id = u.message_id
  ) m on true;
  v_group_of := v_group_of || array(
    select case when v_fifo then hashtextextended(u.id, p_queue_id) end
    from unnest(p_groups) with ordinality u (id, place) order by u.place);
  if v_fifo then
    perform from (select distinct u.group_no from unnest(v_group_of) u (group_no) order by u.group_no) u
    cross join lateral (
      select from skipmq.message_group g where g.queue_id = p_queue_id and g.group_no = u.group_no for no key update
    ) l;
  end if;
  -- Separate statements for the locks, so that the next ones see the current rows.
  if v_fifo then
    -- A message that waits does not free its group.
    v_group_of := array(
      select case when u.place > cardinality(p_ids) or exists (
        select from skipmq.message_group g
        cross join lateral skipmq.group_received(p_queue_id, g.group_no, g.first_number) r
        where g.queue_id = p_queue_id and g.group_no = u.group_no and r.id = u.id and r.visible_at > v_now) then u.group_no end
      from unnest(v_ids, v_group_of) with ordinality u (id, group_no, place) order by u.place);
  end if;
  v_chosen := case when not v_fifo then v_ids else array(
    select r.id from skipmq.message_group g
    cross join lateral skipmq.group_received(p_queue_id, g.group_no, g.first_number) r
    where g.queue_id = p_queue_id and g.group_no = any (v_group_of)) end;
  perform from (select distinct u.id from unnest(v_chosen) u (id) order by u.id) u
  cross join lateral (select from skipmq.message m where m.queue_id = p_queue_id and m.id = u.id for no key update) l;
  with released as (
    update skipmq.message m set visible_at = v_now
    where m.queue_id = p_queue_id and m.id = any (v_chosen) and m.visible_at > v_now and m.receive_count > m.receive_base
    returning m.id, m.group_no
  )
  select array_agg(r.id), array_agg(r.group_no) into v_released, v_released_of from released r;
  if v_fifo and v_released is not null then
    perform skipmq.refresh_groups(p_queue_id, array(select distinct u.group_no from unnest(v_released_of) u (group_no)));
  end if;
  return query
  select u.place,
    case
      when u.id = any (v_released) or u.place > cardinality(p_ids) and u.group_no = any (v_released_of) then 'released'
      when u.id is null and not exists (
        select from skipmq.message_group g where g.queue_id = p_queue_id and g.group_no = u.group_no and u.place > cardinality(p_ids))
      then 'missing'
      else 'not-in-flight' end,
    case
      when not v_fifo then coalesce((u.id = any (v_released) and u.place = array_position(v_ids, u.id))::integer, 0)
      when u.place = array_position(v_group_of, u.group_no) then coalesce(cardinality(array_positions(v_released_of, u.group_no)), 0)
      else 0 end
  from unnest(v_ids, v_group_of) with ordinality u (id, group_no, place)
  order by u.place;
end $$;
