-- Does: notes that the access keys, the keys for receipt handles or the ended sessions have changed, and notifies all
--   nodes when the transaction commits.
-- Called by: the functions that change them.
-- Locks, in order: the row of the cluster.
-- Raises: nothing.
-- Relies on index: none.
--
-- Not for nodes. The form of the notification is that of the nodes' own: PROCESS KIND WHAT.
create function skipmq.announce_access_keys() returns void
language sql volatile
as $$
  update skipmq.cluster set access_key_version = access_key_version + 1;
  select pg_catalog.pg_notify('skipmq', 'sql keys all')
$$;
