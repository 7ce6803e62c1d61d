-- Does: deletes the records of damaged pages that are repaired: the relation has another file, or the page of the table can
--   be read; where neither can be known, those met last an hour ago. Returns their number.
-- Called by: the janitor.
-- Locks, in order: the damages' rows.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: to each partition; the results are added.
create function skipmq.expire_damage() returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_damage skipmq.damage;
  v_relation regclass;
  v_is_repaired boolean;
  v_count integer := 0;
begin
  for v_damage in select * from skipmq.damage order by relation, page loop
    v_relation := to_regclass(nullif(v_damage.relation, ''));
    v_is_repaired := case
      when v_damage.file is null then v_damage.last_at < skipmq.clock() - interval '1 hour'
      else v_damage.file is distinct from pg_relation_filenode(v_relation) end;
    if not v_is_repaired and v_damage.page >= 0 and v_relation is not null then
      begin
        -- An index has no rows to read: its record goes with its file.
        if (select c.relkind = 'r' from pg_class c where c.oid = v_relation) then
          execute format('select from %s where ctid >= %L and ctid < %L', v_relation,
            format('(%s,0)', v_damage.page), format('(%s,0)', v_damage.page + 1));
          v_is_repaired := true;
        end if;
      exception
        when data_corrupted or index_corrupted or io_error or insufficient_privilege then
          v_is_repaired := false;
      end;
    end if;
    if v_is_repaired then
      delete from skipmq.damage d where d.relation = v_damage.relation and d.page = v_damage.page;
      v_count := v_count + 1;
    end if;
  end loop;
  return v_count;
end $$;
