-- Does: settles up to p_limit messages that are past their queue's retention period; returns their number.
-- Called by: the janitor.
-- Locks, in order: row of the job (does nothing when it is locked), group rows and message rows.
-- Raises: nothing.
-- Relies on index: message_visible, and those of expire_fifo.
-- Routed: to each partition; the results are added.
create function skipmq.expire_messages(p_limit integer default 5000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_queue record;
  v_count integer := 0;
begin
  if not skipmq.hold_job('expire_messages') then
    return 0;
  end if;
  for v_queue in
    select q.queue_id, q.fifo, q.tenants, q.limited, v_now - make_interval(secs => q.message_retention_period) as horizon
    from skipmq.queue q
  loop
    begin
      if v_queue.fifo then
        v_count := v_count + skipmq.expire_fifo(v_queue.queue_id, v_queue.horizon, p_limit - v_count);
      else
        -- visible_at never precedes enqueued_at: each message visible by the horizon was enqueued by it.
        v_count := v_count + skipmq.expire_visible(
          v_queue.queue_id, 0::smallint, '-infinity', v_queue.horizon, v_queue.horizon, p_limit - v_count);
        v_count := v_count + skipmq.expire_visible(
          v_queue.queue_id, 2::smallint, '-infinity', v_queue.horizon, v_queue.horizon, p_limit - v_count);
        if v_queue.tenants then
          v_count := v_count + skipmq.expire_visible(
            v_queue.queue_id, 1::smallint, '-infinity', v_queue.horizon, v_queue.horizon, p_limit - v_count);
        end if;
        for v_lane in 10 .. case when v_queue.limited then 39 else 0 end loop
          v_count := v_count + skipmq.expire_visible(
            v_queue.queue_id, v_lane::smallint, '-infinity', v_queue.horizon, v_queue.horizon, p_limit - v_count);
        end loop;
      end if;
    exception
      when data_corrupted or index_corrupted or io_error then
        null; -- A damaged page of one queue keeps no other from its retention.
    end;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end $$;
