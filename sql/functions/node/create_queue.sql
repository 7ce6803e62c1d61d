-- Does: creates a queue, or returns the one of the same name when its attributes equal those given. A name that ends in
--   .fifo makes a FIFO queue.
-- Called by: the CreateQueue action; SQL users.
-- Locks, in order: the queue's row or, if there is none, the advisory lock of the name, which reserve_queue takes too.
-- Raises: SQ002 when an attribute differs, SQ003 within p_cooldown of the deletion of the same name, SQ013 when the name is
--   reserved for another partition.
-- Relies on index: queue_pkey, generation_name, queue_place_pkey,
--   relocation_account_region_name_key.
-- Routed: by sql/router/, in one partition.
create function skipmq.create_queue(
  p_name text,
  p_attributes jsonb default '{}',
  p_tags jsonb default '{}',
  p_account text default coalesce(nullif(current_setting('skipmq.account', true), ''), '000000000000'),
  p_region text default coalesce(nullif(current_setting('skipmq.region', true), ''), 'us-east-1'),
  p_history_mode text default 'metadata',
  p_cooldown interval default '60 seconds'
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_id bigint;
  v_queue skipmq.queue;
  v_different text;
begin
  select q.* into v_queue from skipmq.queue q
  where q.account = p_account and q.region = p_region and q.name = p_name
  for key share;
  if not found then
    perform pg_advisory_xact_lock(hashtext('skipmq queue'), hashtext(format('%s:%s:%s', p_account, p_region, p_name)) & 1023);
    if exists (
      select from skipmq.queue_place e
      where e.account = p_account and e.region = p_region and e.name = p_name)
      or exists (
        select from skipmq.relocation l
        where l.account = p_account and l.region = p_region and l.name = p_name)
    then
      raise exception 'queue % is reserved for another partition', skipmq.shown(p_name) using errcode = 'SQ013',
        hint = 'call create_queue in the router''s database';
    end if;
    if exists (
      select from skipmq.generation g
      where g.account = p_account and g.region = p_region and g.name = p_name
        and g.retired_at > v_now - p_cooldown and g.retired_as = 'deleted')
      and not exists (
        select from skipmq.queue q where q.account = p_account and q.region = p_region and q.name = p_name)
    then
      raise exception 'You must wait % seconds after deleting a queue before you can create another with the same name.',
        extract(epoch from p_cooldown)::integer using errcode = 'SQ003';
    end if;

    insert into skipmq.queue (
      account, region, name, queue_id, fifo, history_mode, tags, created_at, modified_at)
    select p_account, p_region, p_name, n, p_name like '%.fifo', p_history_mode, p_tags, v_now, v_now
    from skipmq.new_queue_id() n
    on conflict do nothing
    returning queue_id into v_id;

    if v_id is null then -- Another session created it meanwhile.
      return skipmq.create_queue(p_name, p_attributes, p_tags, p_account, p_region, p_history_mode, p_cooldown);
    end if;
    perform skipmq.set_queue_attributes(v_id, p_attributes);
    insert into skipmq.generation (queue_id, account, region, name, history_mode, created_at)
    select q.queue_id, q.account, q.region, q.name, q.history_mode, v_now
    from skipmq.queue q
    where q.queue_id = v_id;
    return v_id;
  end if;
  select a.key into v_different
  from jsonb_each_text(p_attributes) a
  where a.value is distinct from skipmq.queue_attributes(v_queue) ->> a.key
  order by a.key
  limit 1;
  if v_different is not null then
    raise exception 'A queue already exists with the same name and a different value for attribute %', v_different
      using errcode = 'SQ002';
  end if;
  return v_queue.queue_id;
end $$;
