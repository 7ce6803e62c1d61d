-- Does: excludes other senders from groups of a FIFO queue until the transaction ends; returns the groups that it does not
--   hold. p_waits: true waits for other senders, and holds all; false does not wait; null does not wait, and holds no more
--   than some 500 groups in a transaction, the others being returned.
-- Called by: lock_for_sending, append_fifo, refresh_groups, hold_groups_of_queues.
-- Locks, in order: advisory locks of the groups, by number. A transaction's groups beyond some 500: the advisory lock of the
--   queue instead, then, briefly, those of the groups.
-- Raises: nothing.
-- Relies on index: none.
--
-- Advisory locks take room in a table that all sessions of the server share, so that their number must not grow with the
-- number of messages. The lock of the queue excludes later senders: each that has locked a group checks that this lock
-- is free, and holds nothing where it is not. Its holder then waits for each group until those who had locked it before
-- have ended. Two transactions that are large from the start wait, and do not deadlock. One that has sent to a group and sends
-- to another while a large one needs the first may: PostgreSQL ends one of them with 40P01, which is to be repeated. Brief
-- locks are those of the session, taken and released in one expression. A wait for one that is cancelled in the moment in
-- which it is granted may leave it to the session until that ends.
-- skipmq.held_groups has the groups that the transaction has locked: who sets it otherwise endangers his own sends only,
-- since others lock and check as ever. The lock of the queue is one of 1,024, by the low bits
-- of its number.
create function skipmq.hold_groups(p_queue_id bigint, p_groups bigint[], p_waits boolean) returns bigint[]
language plpgsql volatile
as $$
declare
  v_class integer := hashtext('skipmq.fifo');
  v_queue integer := p_queue_id & 1023;
  v_held text := coalesce(current_setting('skipmq.held_groups', true), '');
  v_new bigint[] := array(
    select distinct u.group_no from unnest(p_groups) u (group_no)
    where strpos(v_held, ' ' || u.group_no || ' ') = 0
    order by 1);
  v_busy bigint[] := '{}';
  v_is_free boolean;
begin
  if v_new = '{}' then
    return v_new;
  elsif length(v_held) + 20 * cardinality(v_new) > 10000 then
    if p_waits then
      perform pg_advisory_xact_lock(v_class, v_queue);
      perform pg_advisory_lock(u.group_no), pg_advisory_unlock(u.group_no) from unnest(v_new) u (group_no);
      return '{}';
    elsif p_waits is null or not pg_try_advisory_xact_lock(v_class, v_queue) then
      return v_new;
    end if;
    return array(
      select u.group_no from unnest(v_new) u (group_no)
      where not case when pg_try_advisory_lock(u.group_no) then pg_advisory_unlock(u.group_no) else false end);
  end if;

  -- Before and after: who waits for a group waits for the queue first, as a rule, and holds no group that the holder of the
  -- queue may need.
  for n in 1 .. 2 loop
    v_is_free := case
      when pg_try_advisory_lock_shared(v_class, v_queue) then pg_advisory_unlock_shared(v_class, v_queue)
      else false end;
    if not v_is_free and p_waits then
      perform pg_advisory_lock_shared(v_class, v_queue), pg_advisory_unlock_shared(v_class, v_queue);
    elsif not v_is_free then
      return v_new;
    end if;
    continue when n = 2;
    if p_waits then
      perform pg_advisory_xact_lock(u.group_no) from unnest(v_new) u (group_no);
    else
      v_busy := array(select u.group_no from unnest(v_new) u (group_no) where not pg_try_advisory_xact_lock(u.group_no));
    end if;
  end loop;
  if v_busy <> '{}' then
    v_new := array(select u.group_no from unnest(v_new) u (group_no) where u.group_no <> all (v_busy));
  end if;
  v_held := concat(coalesce(nullif(v_held, ''), ' '), array_to_string(v_new, ' '), ' ');
  v_held := set_config('skipmq.held_groups', v_held, true);
  return v_busy;
end $$;
