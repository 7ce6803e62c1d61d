-- Does: adds records to the audit log, in the given order; returns their number.
-- Called by: nodes, with the records of the last second.
-- Locks, in order: none.
-- Raises: nothing that a client can cause: texts are truncated.
-- Relies on index: access_key_pkey, revoked_key_pkey.
-- Routed: to the first partition that answers.
--
-- p_records is an array of objects with the names of the columns. age is in seconds, since the clock is the database's. A
-- record with a claimed access key that exists, or was revoked, belongs to the key's account.
create function skipmq.record_audit(p_records jsonb) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := skipmq.clock();
  v_partition integer := (select c.partition from skipmq.cluster c);
  v_number integer;
begin
  insert into skipmq.audit_record (
    id, recorded_at, account, access_key, claimed, user_arn, action, queue, client, door, request_id, outcome, parameters)
  select
    floor(extract(epoch from v_now - make_interval(secs => r.age)) * 1000)::bigint << 21
      | (nextval('skipmq.audit_record_seq') << 6) | v_partition,
    v_now - make_interval(secs => r.age),
    coalesce(
      r.account, (select k.account from skipmq.access_key k where k.key_id = r.access_key),
      (select k.account from skipmq.revoked_key k where k.key_id = r.access_key)),
    r.access_key, r.claimed, left(r.user_arn, 256), left(r.action, 80), left(r.queue, 256), left(r.client, 80), r.door,
    left(r.request_id, 80), left(r.outcome, 80), r.parameters
  from rows from (jsonb_to_recordset(p_records) as (
    age float8, account text, access_key text, claimed boolean, user_arn text, action text, queue text, client text,
    door text, request_id text, outcome text, parameters jsonb)) with ordinality
    as r (
      age, account, access_key, claimed, user_arn, action, queue, client, door, request_id, outcome, parameters, place)
  order by r.place;
  get diagnostics v_number = row_count;
  return v_number;
end $$;
