-- Does: gives the access keys a new version, and notifies all nodes on commit.
-- Called by: the functions that change access keys, keys for receipt handles or ended sessions.
-- Locks, in order: the row of the cluster.
-- Raises: nothing.
-- Relies on index: none.
--
-- The version is random: a server that lost changes must not give the version of one of them to another change.
-- Not granted to nodes. The payload has the form of the nodes' notifications: PROCESS KIND WHAT.
create function skipmq.announce_access_keys() returns void
language sql volatile
as $$
  update skipmq.cluster set access_key_version = hashtextextended(gen_random_uuid()::text, 0);
  select pg_catalog.pg_notify('skipmq', 'sql keys all')
$$;
