-- Makes the functions that read tables of messages use indexes for every caller. On a table that was vacuumed while it was
-- empty the planner prefers sequential scans, and a session keeps such a plan when the table has filled. The settings also
-- apply to functions called by these. `create or replace function` drops them: each `skipmq migrate` gives them again, and
-- `skipmq doctor` names the functions without.
do $$
declare
  v_function text;
begin
  foreach v_function in array '{
    receive_messages, receive_from_queues, receive_readable_messages, return_messages, delete_messages, delete_from_queues, change_visibility, is_sent, low_watermark,
    claim_fifo_messages, receive_fifo_messages, receive_fifo_attempt, return_fifo_messages, delete_fifo_messages,
    receive_from_fifo_queues, delete_from_fifo_queues,
    change_fifo_visibility,
    oldest_message, count_messages, count_in_flight, bound_in_flight, peek_messages, picked_messages, find_message, message_failures, search_messages, record_failure,
    copy_messages, move_messages,
    delete_picked_messages, release_messages, reschedule_messages, cancel_message, queue_groups, return_message, delete_received, dead_letter_message, change_message_visibility,
    dead_letter_origins, advance_move_tasks, move_batch, move_fifo_batch, resend, erase_messages, clear_retired, expire_deduplication, expire_messages, fold_counts, mark_noisy
  }'::text[] loop
    execute format(
      'alter function skipmq.%I
        set plan_cache_mode = force_generic_plan
        set enable_seqscan = off
        set enable_bitmapscan = off
        set enable_sort = off
        set enable_hashjoin = off
        set enable_mergejoin = off
        set jit = off', v_function);
  end loop;
end $$;
