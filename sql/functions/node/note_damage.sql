-- Does: records PostgreSQL's error of a damaged page, with the relation and the page that it names.
-- Called by: nodes, after the error.
-- Locks, in order: the damage's row.
-- Raises: nothing.
-- Relies on index: damage_pkey.
-- Routed: not: nodes run it on each partition itself.
--
-- The texts of PostgreSQL: 'invalid page in block 7 of relation "base/5/16400"', 'could not read block 7 in file
-- "base/5/16400"', 'index "message_pkey" contains corrupted page at block 7', 'missing chunk number 0 for toast value 5 in
-- pg_toast_16400'.
create function skipmq.note_damage(p_error text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_place text[] := regexp_match(p_error, '(?:base|global|pg_tblspc/(\d+)/[^/" ]+)/\d+/(\d+)');
  v_name text := coalesce(substring(p_error from '(pg_toast_\d+)'), substring(p_error from '"([a-z_0-9]+)"'));
  v_page bigint := substring(p_error from '(?:block|page|blocks) (\d{1,10})')::bigint;
  v_relation regclass;
  v_now timestamptz := skipmq.clock();
begin
  if v_place is not null then
    v_relation := pg_filenode_relation(coalesce(v_place[1]::oid, 0), v_place[2]::oid);
  elsif v_name is not null then
    v_relation := coalesce(to_regclass(format('skipmq.%I', v_name)), to_regclass(format('pg_toast.%I', v_name)));
  end if;
  insert into skipmq.damage as d (relation, page, file, error, first_at, last_at)
  values (coalesce(v_relation::text, ''), coalesce(v_page, -1), pg_relation_filenode(v_relation), left(p_error, 500), v_now, v_now)
  on conflict (relation, page) do update set file = excluded.file, error = excluded.error, last_at = v_now;
end $$;
