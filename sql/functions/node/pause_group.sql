-- Does: has receives from a queue leave out the messages of a group, until p_until (null, infinity: until the group is resumed). p_by
--   is who pauses it (null: the role).
-- Called by: the PauseMessageGroup action; SQL users.
-- Locks, in order: queue row, row of paused_group.
-- Raises: SQ005 when the generation does not exist, SQ008 for a group that cannot be or a time that has passed.
-- Relies on index: queue_id, paused_group_pkey.
-- Routed: to the partition of p_queue_id.
create function skipmq.pause_group(
  p_queue_id bigint, p_group_id text, p_until timestamptz default null, p_by text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if skipmq.is_identifier(p_group_id) is not true then
    raise exception 'MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.'
      using errcode = 'SQ008';
  elsif p_until <= skipmq.clock() then
    raise exception 'A group is paused until a time that is to come.' using errcode = 'SQ008';
  end if;
  update skipmq.queue q set limited = true where q.queue_id = p_queue_id;
  if not found then
    perform skipmq.check_generation(p_queue_id);
  end if;
  insert into skipmq.paused_group as g (queue_id, group_id, until, paused_at, paused_by)
  values (p_queue_id, p_group_id, nullif(p_until, 'infinity'), skipmq.clock(), coalesce(p_by, session_user))
  on conflict on constraint paused_group_pkey do update set until = excluded.until, paused_by = excluded.paused_by;
end $$;
