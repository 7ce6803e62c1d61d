-- Roles with the least privilege that each needs. The owner is the role that runs the migrations. Roles belong to the whole
-- server: where the owner may not create them, an administrator does (`skipmq migrate --print-sql`), and `skipmq migrate`
-- is run again, which always applies this file. Nodes and readers cannot log in over a network until they have a password;
-- applications have their own logins, which are members of skipmq_application.
do $$
declare
  v_role text;
  v_login text;
begin
  for v_role, v_login in
    values ('skipmq_node', 'login'), ('skipmq_reader', 'login'), ('skipmq_application', 'nologin')
  loop
    if not exists (select from pg_roles where rolname = v_role) then
      begin
        execute format('create role %I %s', v_role, v_login);
      exception
        when insufficient_privilege then
          null; -- missing.sql reports it, with the statement for an administrator.
        when duplicate_object or unique_violation then
          null; -- Another database of this server was migrated concurrently.
      end;
    end if;
  end loop;

  revoke execute on all functions in schema skipmq from public;
  if exists (select from pg_roles where rolname = 'skipmq_node') then
    grant usage on schema skipmq to skipmq_node;
    grant execute on all functions in schema skipmq to skipmq_node;
    -- Only for calls by other functions, with the owner's rights and search_path.
    revoke execute on function
      skipmq.settle(tid[], text), skipmq.write_history(tid[], text, timestamptz),
      skipmq.sample_history(bigint, timestamptz, timestamptz, integer),
      skipmq.check_generation(bigint, boolean), skipmq.generations(bigint), skipmq.queue_notices(text, text, text, timestamptz),
      skipmq.dead_letter_queue(bigint), skipmq.dead_letter(bigint, tid[], bigint, timestamptz),
      skipmq.is_sent(bigint, uuid[], timestamptz),
      skipmq.shard_of(bigint, text, timestamptz), skipmq.shards(bigint), skipmq.lane_of(text, text), skipmq.lane_order(text, boolean), skipmq.hold_limits(bigint, boolean),
      skipmq.claim_limited_messages(bigint, integer, integer, bigint, integer, boolean, interval), skipmq.move_to_lanes(skipmq.queue, timestamptz),
      skipmq.claim_limited_groups(bigint, integer[], integer, text, text[]), skipmq.walk_lanes(bigint, smallint[], timestamptz, text[], integer, text),
      skipmq.choose_messages(bigint, smallint[], timestamptz, timestamptz, integer, integer, text[], integer[], text[], integer, text),
      skipmq.group_allowances(skipmq.queue, timestamptz, integer, text[], integer[]), skipmq.use_rates(skipmq.queue, timestamptz, text[]), skipmq.rate_allowance(skipmq.queue, timestamptz, integer),
      skipmq.count_delayed(bigint[], timestamptz[], integer, uuid[]), skipmq.fold_delayed(timestamptz), skipmq.delayed_ids(bigint, uuid[], timestamptz),
      skipmq.send_tick(skipmq.schedule, timestamptz), skipmq.scan_from(timestamptz, bigint[], bigint[]), skipmq.count_all(bigint),
      skipmq.clear_head(bigint, smallint, timestamptz, timestamptz, timestamptz, bigint, integer, text[]),
      skipmq.deprioritise(bigint, text[], timestamptz, integer, boolean),
      skipmq.expire_visible(bigint, smallint, timestamptz, timestamptz, timestamptz, integer),
      skipmq.move_to_dead_letter_queue(bigint, smallint, bigint, integer, timestamptz, timestamptz, integer),
      skipmq.move_batch(bigint, bigint, integer, text[]), skipmq.is_redrivable(bigint, bigint, boolean), skipmq.redrive_failure(bigint, text), skipmq.queue_since(text),
      skipmq.match_messages(bigint, timestamptz, bigint, timestamptz, text, text, text, integer, jsonb), skipmq.check_filter(jsonb),
      skipmq.add_move_task(bigint, text, text, integer, text, text, text, text, jsonb), skipmq.matches_filter(text, text, integer, timestamptz, jsonb),
      skipmq.lock_picked(bigint, bigint[], uuid[], timestamptz), skipmq.fifo_in_flight(bigint, timestamptz), skipmq.group_received(bigint, bigint, bigint),
      skipmq.advance_message_task(skipmq.move_task, bigint, bigint, integer, integer),
      skipmq.expire_fifo(bigint, timestamptz, integer), skipmq.move_fifo_batch(bigint, bigint, integer, text[]), skipmq.append_fifo(bigint, bigint[], bigint[], text),
      skipmq.clear_groups(bigint, bigint[], timestamptz, timestamptz, integer, bigint), skipmq.clear_group(bigint, bigint, timestamptz, timestamptz, integer, bigint),
      skipmq.lock_groups(bigint, bigint[], boolean), skipmq.resend(bigint, tid[], bigint[], timestamptz), skipmq.new_queue_id(), skipmq.hold_generation(bigint), skipmq.hold_job(text, boolean),
      skipmq.hold_groups(bigint, bigint[], boolean), skipmq.lock_for_sending(bigint, text[], integer[]), skipmq.hold_queue(text, text, text),
      skipmq.refresh_groups(bigint, bigint[]), skipmq.refresh_groups_of_queues(bigint[], bigint[]), skipmq.hold_groups_of_queues(bigint[], bigint[], boolean),
      skipmq.check_messages(bigint, text[], text[], integer[], text[], text[], text[]),
      skipmq.check_message(boolean, integer, integer, text, bigint, integer, text, text, text),
      skipmq.check_attributes(text[]), skipmq.check_receive(integer, integer), skipmq.check_timeouts(integer[]), skipmq.retry_delay(jsonb, integer),
      skipmq.deduplication_ids(bigint, text[], text[]), skipmq.has_forbidden_character(text), skipmq.is_attribute_name(text), skipmq.is_identifier(text),
      skipmq.is_number(text), skipmq.latin(text), skipmq.shown(text), skipmq.note_failure(text, text), skipmq.add_failure(jsonb, timestamptz, integer, text, text), skipmq.session_receiver(), skipmq.failure_kind(text), skipmq.note_consumer(bigint),
      skipmq.check_redrive(bigint, text, text[]),
      skipmq.check_grant(text, text, text, text), skipmq.granted_queue(text, text, text, text),
      skipmq.is_readable(bigint, smallint, timestamptz, timestamptz), skipmq.readable_from(bigint, smallint, timestamptz, timestamptz), skipmq.try_oldest_message(bigint, boolean), skipmq.try_count_messages(bigint, bigint),
      skipmq.repeated_messages(bigint, boolean, integer, integer), skipmq.held_back(bigint, text, float8), skipmq.new_failures(bigint, boolean, timestamptz, integer), skipmq.note_failure_kinds(bigint, bigint[], timestamptz),
      skipmq.notification(text, uuid, bigint, text, text, text, timestamptz, text, jsonb), skipmq.filter_document(text, text), skipmq.matches_policy(jsonb, jsonpath, jsonb), skipmq.deliveries(skipmq.topic, uuid, text, integer, text, text, jsonb, text, jsonb, jsonb, jsonb, uuid, integer),
      skipmq.send_confirmation(bigint, uuid), skipmq.delivery_rate(jsonb, jsonb), skipmq.announce_access_keys()
      from skipmq_node;
    -- Only the owner decides which keys may sign and which applications may use which queues.
    revoke execute on function
      skipmq.grant_queues(text, text[], text[], text, text),
      skipmq.revoke_queues(text, text[], text[], text, text),
      skipmq.queue_grants(),
      skipmq.create_access_key(text, text, text, bytea, text, text, bytea, interval, jsonb, text),
      skipmq.change_access_key(text, boolean, interval, jsonb),
      skipmq.revoke_access_key(text, text),
      skipmq.rotate_receipt_key(),
      skipmq.reencrypt_access_key(text, bytea, bytea, text)
      from skipmq_node;
    grant usage on schema skipmq_views to skipmq_node;
    grant select on all tables in schema skipmq_views to skipmq_node;
    -- The migrations' own table, which nodes read at start-up.
    if to_regclass('skipmq.alembic_version') is not null then
      revoke all on skipmq.alembic_version from public;
      grant select on skipmq.alembic_version to skipmq_node;
    end if;
  end if;
  if exists (select from pg_roles where rolname = 'skipmq_application') then
    revoke execute on all functions in schema skipmq from skipmq_application;
    grant usage on schema skipmq to skipmq_application;
    -- Each takes a queue or a topic by name, and begins with check_grant.
    grant execute on function
      skipmq.send_message(text, text, jsonb, integer, text, text, text, text, integer, timestamptz),
      skipmq.cancel_message(text, uuid, text, text),
      skipmq.reschedule_message(text, uuid, timestamptz, text, text),
      skipmq.create_schedule(text, text, text, text, text, jsonb, text, integer, text, timestamptz, integer, text, text),
      skipmq.change_schedule(text, text, text, text),
      skipmq.send_fifo_message(text, text, text, text, jsonb, text, text), skipmq.publish(text, text, jsonb, text, text, text, text, text),
      skipmq.receive_message(text, integer, integer, text, text),
      skipmq.delete_message(text, bigint, integer, uuid, text, text), skipmq.delete_received(text, bigint[], integer[], uuid[], text, text),
      skipmq.change_message_visibility(text, bigint, integer, uuid, integer, text, text, text),
      skipmq.return_message(text, bigint, integer, uuid, text, text),
      skipmq.dead_letter_message(text, bigint, integer, uuid, text, text, text, text),
      skipmq.stage_messages(text, text, uuid, bigint[], text[], text[], integer[], text[], text[], text[], text, text),
      skipmq.send_staged(text, text, bigint, uuid[], bigint, integer, bigint, text, text), skipmq.discard_staged(text, text, uuid[], text, text)
      to skipmq_application;
  end if;
  if exists (select from pg_roles where rolname = 'skipmq_reader') then
    revoke usage on schema skipmq from skipmq_reader;
    grant usage on schema skipmq_views to skipmq_reader;
    grant select on all tables in schema skipmq_views to skipmq_reader;
    -- For the view skipmq_views.server.
    grant execute on function skipmq.timeline() to skipmq_reader;
  end if;
end $$;

-- Limits for readers: no writes, no queries for hours, no idle transactions, no more than 32 connections. Values that a
-- role already has for these settings are kept. The owner may terminate the sessions of readers.
do $$
declare
  v_setting record;
begin
  if not exists (select from pg_roles where rolname = 'skipmq_reader') then
    return;
  end if;
  for v_setting in
    select s.name, s.value
    from (values
      ('default_transaction_read_only', 'on'), ('statement_timeout', '30min'),
      ('idle_in_transaction_session_timeout', '1min')) s (name, value)
    where not exists (
      select from pg_roles r cross join lateral unnest(r.rolconfig) c (text)
      where r.rolname = 'skipmq_reader' and c.text like s.name || '=%')
  loop
    execute format('alter role skipmq_reader set %I = %L', v_setting.name, v_setting.value);
  end loop;
  if exists (select from pg_roles r where r.rolname = 'skipmq_reader' and r.rolconnlimit = -1) then
    alter role skipmq_reader connection limit 32;
  end if;
  if not pg_has_role(current_user, 'skipmq_reader', 'usage') then
    execute format('grant skipmq_reader to %I', current_user);
  end if;
exception
  when insufficient_privilege then
    null; -- missing.sql reports it.
  when internal_error then
    -- Another database of this server is being migrated concurrently.
    raise notice 'role skipmq_reader is changed by another migration';
end $$;
