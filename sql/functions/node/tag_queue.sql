-- Does: sets the tags in p_tags (text values) on a queue, replacing those with the same keys; others stay.
-- Called by: the TagQueue action; SQL users.
-- Locks, in order: queue row.
-- Raises: SQ005 when the generation does not exist, SQ008 when the queue would have more than 50 tags, 23514 when a key or
--   a value is too long.
-- Relies on index: queue_id.
-- Routed: to the partition of p_queue_id.
create function skipmq.tag_queue(p_queue_id bigint, p_tags jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_limit constant integer := 50;
  v_tags jsonb;
  v_name text;
begin
  select q.tags || p_tags, q.name into v_tags, v_name
  from skipmq.queue q
  where q.queue_id = p_queue_id
  for no key update;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  if (select count(*) from jsonb_object_keys(v_tags)) > v_limit then
    raise exception 'Too many tags added for queue %.', v_name using errcode = 'SQ008';
  end if;
  update skipmq.queue q set tags = v_tags where q.queue_id = p_queue_id;
end $$;
