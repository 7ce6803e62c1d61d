-- Does: returns records of the audit log, newest first, up to p_limit with an id below p_before.
-- Called by: the ListAuditRecords action, `skipmq audit`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: audit_record_pkey, audit_record_account, audit_record_owner, audit_record_queue,
--   audit_record_access_key, audit_record_action, audit_record_user, audit_record_change, audit_record_refusal, access_key_pkey,
--   revoked_key_pkey.
-- Routed: to all partitions; the rows are merged, order by id desc limit p_limit.
--
-- With p_account: actions by the account, actions on its queues, and refusals of requests without a known account;
-- without it: all records. A null filter matches every record. p_by is a user's name, its ARN or an access key; with p_changes
-- refusals and sign-ins are left out. key_name is that of the access key, also of a revoked one. recorded_at is in seconds since 1970.
create function skipmq.audit_records(
  p_account text default null, p_before bigint default null, p_limit integer default 50, p_queue text default null,
  p_access_key text default null, p_action text default null, p_outcome text default null, p_by text default null,
  p_changes boolean default false, p_since timestamptz default null, p_until timestamptz default null
) returns table (
  id bigint, recorded_at float8, account text, access_key text, claimed boolean, user_arn text, action text, queue text,
  client text, door text, request_id text, outcome text, parameters jsonb, key_name text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  -- An id begins with the milliseconds of recorded_at.
  v_before bigint := least(
    p_before, case when p_until is not null then
      floor(extract(epoch from least(greatest(p_until, 'epoch'), '2100-01-01')) * 1000)::bigint << 21 end);
  v_from bigint := case when p_since is not null then
    floor(extract(epoch from least(greatest(p_since, 'epoch'), '2100-01-01')) * 1000)::bigint << 21 end;
  -- The name in a user's ARN, by which records are found.
  v_user text := coalesce(nullif(split_part(p_by, ':user/', 2), ''), p_by);
  v_keys text[] := array(
    select k.key_id from skipmq.access_key k where k.name = p_by
    union select k.key_id from skipmq.revoked_key k where k.name = p_by);
  v_filter text := concat_ws(' and ', 'true',
    case when v_before is not null then 'r.id < $2' end, case when v_from is not null then 'r.id >= $3' end,
    case when p_queue is not null then 'r.queue = $4' end, case when p_access_key is not null then 'r.access_key = $5' end,
    case when p_action is not null then 'r.action = $6' end, case when p_outcome is not null then 'r.outcome = $7' end,
    case when p_changes then 'r.outcome = ''done'' and r.action is distinct from ''SignIn''' end);
  -- A branch for each index, since the log is that of all accounts and users: the records of one may be few and old.
  v_places text[] := case when p_account is null then '{true}' else array[
    'r.account = $1', 'r.account is null', 'split_part(r.queue, '':'', 5) = $1 and r.account <> split_part(r.queue, '':'', 5)'] end;
  v_is_user constant text := '(coalesce(nullif(split_part(r.user_arn, '':user/'', 2), ''''), r.user_arn) = $8'
    ' and (r.user_arn = $11 or $8 = $11))';
  v_users text[] := case when p_by is null then '{true}' else array[
    v_is_user, 'r.access_key = $11 and ' || v_is_user || ' is not true',
    'r.access_key = any ($9) and r.access_key <> $11 and ' || v_is_user || ' is not true'] end;
  v_records text;
begin
  select string_agg(format(
    '(select r.* from skipmq.audit_record r where %s and %s and %s order by r.id desc limit $10)', p.place, u.who, v_filter),
    ' union all ')
  into v_records
  from unnest(v_places) p (place) cross join unnest(v_users) u (who);
  return query execute format(
    'select r.id, extract(epoch from r.recorded_at)::float8, r.account, r.access_key, r.claimed, r.user_arn, r.action, r.queue,
      r.client, r.door, r.request_id, r.outcome, r.parameters, coalesce(
        (select coalesce(k.name, p.name) from skipmq.access_key k left join skipmq.access_key p on p.key_id = k.parent
         where k.key_id = r.access_key),
        (select k.name from skipmq.revoked_key k where k.key_id = r.access_key))
    from (%s) r order by r.id desc limit $10', v_records)
  using p_account, v_before, v_from, p_queue, p_access_key, p_action, p_outcome, v_user, v_keys, p_limit, p_by;
end $$;
