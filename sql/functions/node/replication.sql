-- Does: returns what commits on this server wait for: synchronous_standby_names, the number of standbys that must
--   acknowledge, the number listed as candidates, and the number of those that are streaming (null: the schema's owner
--   is not in pg_monitor and cannot see it).
-- Called by: nodes, for readiness, `skipmq doctor` and the ReplicationMode of queues.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: by sql/router/, in all partitions.
--
-- Source: PostgreSQL manual, 20.6.2 synchronous_standby_names; 28.2.4 pg_stat_replication.
create function skipmq.replication(
  out names text, out required integer, out listed integer, out connected integer
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_candidates text[];
begin
  names := btrim(current_setting('synchronous_standby_names'));
  -- The forms: ANY n (a, b), FIRST n (a, b), n (a, b), and a, b for FIRST 1 (a, b).
  required := case when names = '' then 0 else
    coalesce((regexp_match(names, '^(?:any\s+|first\s+)?(\d+)\s*\(', 'i'))[1]::integer, 1) end;
  v_candidates := regexp_split_to_array(coalesce((regexp_match(names, '\((.*)\)$'))[1], names), '\s*,\s*');
  if pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
    connected := (
      select count(*) from pg_stat_replication r where r.sync_state <> 'async' and r.state = 'streaming');
  end if;
  listed := case
    when names = '' then 0
    when v_candidates && array['*', '"*"'] then greatest(required, connected)
    else cardinality(v_candidates)
  end;
end $$;
