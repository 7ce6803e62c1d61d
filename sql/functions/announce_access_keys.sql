-- Does: increments the version of the access keys, and notifies all nodes on commit.
-- Called by: the functions that change access keys, keys for receipt handles or ended sessions.
-- Locks, in order: the row of the cluster.
-- Raises: nothing.
-- Relies on index: none.
--
-- Not granted to nodes. The payload has the form of the nodes' notifications: PROCESS KIND WHAT.
create function skipmq.announce_access_keys() returns void
language sql volatile
as $$
  update skipmq.cluster set access_key_version = access_key_version + 1;
  select pg_catalog.pg_notify('skipmq', 'sql keys all')
$$;
