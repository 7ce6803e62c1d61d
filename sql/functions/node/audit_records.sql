-- Does: returns records of the audit log, newest first, up to p_limit with an id below p_before.
-- Called by: the ListAuditRecords action, `skipmq audit`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: audit_record_pkey, audit_record_account, audit_record_owner, audit_record_queue,
--   audit_record_access_key, audit_record_action, audit_record_refusal.
-- Routed: to all partitions; the rows are merged, order by id desc limit p_limit.
--
-- With p_account: actions by the account, actions on its queues, and refusals of requests without a known account;
-- without it: all records. A null filter matches every record. recorded_at is in seconds since 1970.
create function skipmq.audit_records(
  p_account text default null, p_before bigint default null, p_limit integer default 50, p_queue text default null,
  p_access_key text default null, p_action text default null, p_outcome text default null
) returns table (
  id bigint, recorded_at float8, account text, access_key text, claimed boolean, user_arn text, action text, queue text,
  client text, door text, request_id text, outcome text, parameters jsonb
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
begin
  -- A branch for each index, since the log is that of all accounts: the records of one may be few and old.
  return query
  select
    r.id, extract(epoch from r.recorded_at)::float8, r.account, r.access_key, r.claimed, r.user_arn, r.action, r.queue,
    r.client, r.door, r.request_id, r.outcome, r.parameters
  from (
    (
      select r.* from skipmq.audit_record r
      where p_account is null
        and (p_before is null or r.id < p_before) and (p_queue is null or r.queue = p_queue)
        and (p_access_key is null or r.access_key = p_access_key) and (p_action is null or r.action = p_action)
        and (p_outcome is null or r.outcome = p_outcome)
      order by r.id desc
      limit p_limit
    )
    union all
    (
      select r.* from skipmq.audit_record r
      where r.account = p_account
        and (p_before is null or r.id < p_before) and (p_queue is null or r.queue = p_queue)
        and (p_access_key is null or r.access_key = p_access_key) and (p_action is null or r.action = p_action)
        and (p_outcome is null or r.outcome = p_outcome)
      order by r.id desc
      limit p_limit
    )
    union all
    (
      select r.* from skipmq.audit_record r
      where p_account is not null and r.account is null
        and (p_before is null or r.id < p_before) and (p_queue is null or r.queue = p_queue)
        and (p_access_key is null or r.access_key = p_access_key) and (p_action is null or r.action = p_action)
        and (p_outcome is null or r.outcome = p_outcome)
      order by r.id desc
      limit p_limit
    )
    union all
    (
      select r.* from skipmq.audit_record r
      where split_part(r.queue, ':', 5) = p_account and r.account <> split_part(r.queue, ':', 5)
        and (p_before is null or r.id < p_before) and (p_queue is null or r.queue = p_queue)
        and (p_access_key is null or r.access_key = p_access_key) and (p_action is null or r.action = p_action)
        and (p_outcome is null or r.outcome = p_outcome)
      order by r.id desc
      limit p_limit
    )
  ) r
  order by r.id desc
  limit p_limit;
end $$;
