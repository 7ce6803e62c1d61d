-- Roles with the least that each needs. The owner is whoever runs the migrations. Roles belong to the
-- whole server: where the owner may not create them, an administrator does, and the migration is run
-- again. Neither can log in over a network until it is given a password.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['skipmq_node', 'skipmq_reader'] loop
    if not exists (select from pg_roles where rolname = v_role) then
      begin
        execute format('create role %I login', v_role);
      exception
        when insufficient_privilege then
          raise warning 'role % is missing and % may not create it', v_role, current_user;
        when duplicate_object or unique_violation then
          null; -- Another database of this server was migrated at the same moment.
      end;
    end if;
  end loop;

  revoke execute on all functions in schema skipmq from public;
  if exists (select from pg_roles where rolname = 'skipmq_node') then
    grant usage on schema skipmq to skipmq_node;
    grant execute on all functions in schema skipmq to skipmq_node;
    -- Only for other functions, which call them with the owner's rights.
    revoke execute on function
      skipmq.settle(tid[], text),
      skipmq.move_batch(integer, integer, integer),
      skipmq.check_redrive(integer, text, text[]),
      skipmq.move_dead_letters(integer, smallint, integer, integer, timestamptz, timestamptz, integer),
      skipmq.expire_visible(integer, smallint, timestamptz, timestamptz, timestamptz, integer),
      skipmq.set_aside(integer, text[], timestamptz, integer),
      skipmq.expire_fifo(integer, timestamptz, integer),
      skipmq.move_fifo_batch(integer, integer, integer),
      skipmq.append_fifo(integer, bigint[], integer[], text),
      skipmq.clear_group(integer, bigint, timestamptz, timestamptz, integer, integer),
      skipmq.lock_groups(integer, bigint[]),
      skipmq.refresh_groups(integer, bigint[]),
      skipmq.check_message(integer, text, jsonb)
      from skipmq_node;
  end if;
  if exists (select from pg_roles where rolname = 'skipmq_reader') then
    grant usage on schema skipmq to skipmq_reader;
  end if;
end $$;
