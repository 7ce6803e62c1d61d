-- Does: returns what a node can do with this database: writable; read_only (a standby, or a primary that rejects writes);
--   no_privilege (the caller lacks a right on a function that nodes call); disk_full (a node found the disk full and
--   watches it); damaged (writable, but nodes met damaged pages).
-- Called by: nodes, once a second each; `skipmq doctor`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: pg_proc_proname_args_nsp_index.
-- Routed: by sql/router/, in one partition.
--
-- Runs with the caller's rights, which it checks. A full disk is recognised by the advisory lock of a session in
-- watch_disk, since a full disk takes no row. Any login can take that lock; it counts only where its role may call
-- watch_disk.
create function skipmq.database_state() returns text
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select case
    when current_setting('transaction_read_only') = 'on' then 'read_only'
    when exists (
      select
      from pg_proc p
      where p.pronamespace = 'skipmq'::regnamespace
        and p.proname = any (array[
          'bound_in_flight', 'cancel_move_task', 'change_fifo_visibility', 'change_visibility', 'claim_fifo_messages',
          'copy_messages', 'count_messages', 'create_queue', 'delete_fifo_messages', 'delete_messages', 'delete_queue', 'get_queue',
          'list_move_tasks', 'list_queues', 'low_watermark', 'move_messages', 'peek_messages', 'purge_queue',
          'receipt_keys', 'receive_fifo_attempt', 'receive_messages', 'replication',
          'return_fifo_messages', 'return_messages', 'send_fifo_messages', 'send_messages', 'set_queue_attributes',
          'start_move_task', 'tag_queue', 'untag_queue'])
        and not has_function_privilege(p.oid, 'execute'))
      then 'no_privilege'
    when exists (
      select
      from pg_locks l
      join pg_stat_activity a on a.pid = l.pid
      join pg_proc p on p.pronamespace = 'skipmq'::regnamespace and p.proname = 'watch_disk'
        and has_function_privilege(a.usesysid, p.oid, 'execute')
      where l.locktype = 'advisory' and l.objsubid = 2
        and l.database = (select d.oid from pg_database d where d.datname = current_database())
        and l.classid = hashtext('skipmq')::oid and l.objid = hashtext('disk_full')::oid)
      then 'disk_full'
    when exists (select from skipmq.damaged_pages()) then 'damaged'
    else 'writable'
  end;
$$;
